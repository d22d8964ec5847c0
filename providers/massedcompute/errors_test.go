package massedcompute

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Every row of the sheet's table of errors, in each of the forms that an error may have.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		op     string
		answer fakecloud.Answer
		want   error
	}{
		"wrong key":             {opList, failure(401, "Invalid Token"), gputrain.ErrAuth},
		"key for reading":       {opLaunch, failure(403, "Forbidden"), gputrain.ErrAuth},
		"no recharge":           {opLaunch, failure(402, "Recharge amount is not set"), gputrain.ErrQuota},
		"unknown product":       {opLaunch, failure(404, "Product not found"), gputrain.ErrInvalid},
		"conflict":              {opLaunch, failure(409, ""), gputrain.ErrNoCapacity},
		"no capacity":           {opLaunch, failure(400, "No Capacity available"), gputrain.ErrNoCapacity},
		"out of stock":          {opLaunch, fakecloud.Failure(400, row{"error": "out of stock"}, ""), gputrain.ErrNoCapacity},
		"no longer there":       {opLaunch, fakecloud.Failure(422, row{"error": row{"message": "it is no longer available"}}, ""), gputrain.ErrNoCapacity},
		"no capacity, as text":  {opLaunch, fakecloud.Failure(400, "no capacity", ""), gputrain.ErrNoCapacity},
		"quota":                 {opLaunch, failure(400, "Instance limit exceeded"), gputrain.ErrQuota},
		"wrong image":           {opLaunch, failure(400, "Product does not support the VM Image"), gputrain.ErrInvalid},
		"rate limit":            {opLaunch, fakecloud.Failure(429, "Too Many Requests", ""), gputrain.ErrRateLimited},
		"server at capacity":    {opList, fakecloud.Failure(503, "over capacity", ""), gputrain.ErrUnavailable},
		"launch, at capacity":   {opLaunch, fakecloud.Failure(503, "over capacity", ""), gputrain.ErrUnavailable},
		"list without its list": {opList, fakecloud.Reply(200, row{}), gputrain.ErrUnavailable},
		"list without UUIDs":    {opList, fakecloud.Reply(200, row{"runningInstances": []row{{"name": "x"}}}), gputrain.ErrUnavailable},
		"keys without a list":   {opKeys, fakecloud.Reply(200, row{}), gputrain.ErrUnavailable},
		"launch of nothing":     {opLaunch, fakecloud.Reply(202, row{"response": ""}), gputrain.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := idle(t)
			d := cloudtest.Prepared(t, f.config())
			f.Inject(fakecloud.Fault{Op: tt.op, Answer: tt.answer, Times: -1})
			var err error
			op := "list"
			if tt.op == opLaunch {
				op = "launch"
				_, err = cloudtest.Launch(t, d, oneL40, 0)
			} else {
				_, err = d.List(t.Context(), "")
			}
			cloudtest.Is(t, err, tt.want, "massedcompute", op, testKey)
		})
	}
}

// What a fault is read from is whatever the service sends.
func FuzzFault(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"message":"Valid Token"}`, `{"error":"x"}`, `{"error":{"message":"x"}}`, `{"error":null}`, `{"error":[1]}`, `[]`, `null`, `{"message":7}`} {
		f.Add(400, []byte(s))
		f.Add(200, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if said := fault(status, body); said != nil && said.Message == "" {
			t.Errorf("%q of %d is a failure that says nothing", body, status)
		}
	})
}
