package lambda

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Every row of the sheet's table of errors.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		op     string
		answer fakecloud.Answer
		want   error
	}{
		"wrong key":               {opList, failure(401, "global/invalid-api-key", "API key was invalid, expired, or deleted."), gputrain.ErrAuth},
		"forbidden":               {opList, fakecloud.Failure(403, "no", ""), gputrain.ErrAuth},
		"inactive account":        {opList, failure(403, "global/account-inactive", "Your account is inactive."), gputrain.ErrQuota},
		"no billing address":      {opLaunch, failure(403, "global/invalid-address", "Your billing address is invalid."), gputrain.ErrQuota},
		"no capacity":             {opLaunch, failure(400, "instance-operations/launch/insufficient-capacity", "Not enough capacity to fulfill launch request."), gputrain.ErrNoCapacity},
		"no capacity, alias":      {opLaunch, failure(400, "global/insufficient-capacity", "Not enough capacity."), gputrain.ErrNoCapacity},
		"quota":                   {opLaunch, failure(400, "global/quota-exceeded", "Quota exceeded."), gputrain.ErrQuota},
		"invalid":                 {opLaunch, failure(400, "global/invalid-parameters", "Region moon-1 does not exist"), gputrain.ErrInvalid},
		"file system elsewhere":   {opLaunch, failure(400, "instance-operations/launch/file-system-in-wrong-region", "Requested file system is not in the requested region."), gputrain.ErrInvalid},
		"unknown part, 404":       {opLaunch, failure(404, "global/object-does-not-exist", "Image does not exist."), gputrain.ErrInvalid},
		"unknown part, 400":       {opLaunch, failure(400, "global/object-does-not-exist", "Image does not exist."), gputrain.ErrInvalid},
		"rate limit, text":        {opLaunch, fakecloud.Failure(429, "Too Many Requests", ""), gputrain.ErrRateLimited},
		"failure in a 200":        {opList, failure(200, "global/internal-error", "oops"), nil},
		"server fails":            {opList, failure(500, "global/internal-error", "oops"), gputrain.ErrUnavailable},
		"provider is unavailable": {opLaunch, failure(503, "provider/internal-unavailable", "oops"), gputrain.ErrUnavailable},
		"no list":                 {opList, fakecloud.Reply(200, row{}), gputrain.ErrUnavailable},
		"list of null":            {opList, data(nil), gputrain.ErrUnavailable},
		"list without IDs":        {opList, data([]row{{"status": "active"}}), gputrain.ErrUnavailable},
		"launch of nothing":       {opLaunch, data(row{"instance_ids": []string{}}), gputrain.ErrUnavailable},
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
				_, err = cloudtest.Launch(t, d, oneA10, 0)
			} else {
				_, err = d.List(t.Context(), "")
			}
			if tt.want == nil {
				if err == nil {
					t.Error("a failure under a good status is a success")
				}
				return
			}
			cloudtest.Is(t, err, tt.want, "lambda", op, testKey)
		})
	}
}
