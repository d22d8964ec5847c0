package massedcompute

import (
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Every failure in the sheet's table becomes the right kind of driver.Error, in each of its
// forms.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		op     string
		answer fakecloud.Answer
		want   error
	}{
		"wrong key":             {opList, failure(401, "Invalid Token"), driver.ErrAuth},
		"key for reading":       {opLaunch, failure(403, "Forbidden"), driver.ErrAuth},
		"no recharge":           {opLaunch, failure(402, "Recharge amount is not set"), driver.ErrBalance},
		"unknown product":       {opLaunch, failure(404, "Product not found"), driver.ErrInvalid},
		"conflict":              {opLaunch, failure(409, ""), driver.ErrNoCapacity},
		"no capacity":           {opLaunch, failure(400, "No Capacity available"), driver.ErrNoCapacity},
		"out of stock":          {opLaunch, fakecloud.Failure(400, row{"error": "out of stock"}, ""), driver.ErrNoCapacity},
		"no longer there":       {opLaunch, fakecloud.Failure(422, row{"error": row{"message": "it is no longer available"}}, ""), driver.ErrNoCapacity},
		"no capacity, as text":  {opLaunch, fakecloud.Failure(400, "no capacity", ""), driver.ErrNoCapacity},
		"quota":                 {opLaunch, failure(400, "Instance limit exceeded"), driver.ErrQuota},
		"wrong image":           {opLaunch, failure(400, "Product does not support the VM Image"), driver.ErrInvalid},
		"rate limit":            {opLaunch, fakecloud.Failure(429, "Too Many Requests", ""), driver.ErrRateLimited},
		"server at capacity":    {opList, fakecloud.Failure(503, "over capacity", ""), driver.ErrUnavailable},
		"launch, at capacity":   {opLaunch, fakecloud.Failure(503, "over capacity", ""), driver.ErrUnavailable},
		"list without its list": {opList, fakecloud.Reply(200, row{}), driver.ErrUnavailable},
		"list without UUIDs":    {opList, fakecloud.Reply(200, row{"runningInstances": []row{{"name": "x"}}}), driver.ErrUnavailable},
		"keys without a list":   {opKeys, fakecloud.Reply(200, row{}), driver.ErrUnavailable},
		"launch of nothing":     {opLaunch, fakecloud.Reply(202, row{"response": ""}), driver.ErrUnavailable},
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
				_, err = cloudtest.Launch(t, d, oneL40.Query(), 0)
			} else {
				_, err = d.List(t.Context(), "")
			}
			cloudtest.Is(t, err, tt.want, "massedcompute", op, testKey)
		})
	}
}

// A fault can be read from any body.
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
