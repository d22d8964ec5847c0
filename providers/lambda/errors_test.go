package lambda

import (
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Every failure in the sheet's table becomes the right kind of driver.Error.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		op     string
		answer fakecloud.Answer
		want   error
	}{
		"wrong key":               {opList, failure(401, "global/invalid-api-key", "API key was invalid, expired, or deleted."), driver.ErrAuth},
		"forbidden":               {opList, fakecloud.Failure(403, "no", ""), driver.ErrAuth},
		"inactive account":        {opList, failure(403, "global/account-inactive", "Your account is inactive."), driver.ErrQuota},
		"no billing address":      {opLaunch, failure(403, "global/invalid-address", "Your billing address is invalid."), driver.ErrQuota},
		"no capacity":             {opLaunch, failure(400, "instance-operations/launch/insufficient-capacity", "Not enough capacity to fulfill launch request."), driver.ErrNoCapacity},
		"no capacity, alias":      {opLaunch, failure(400, "global/insufficient-capacity", "Not enough capacity."), driver.ErrNoCapacity},
		"quota":                   {opLaunch, failure(400, "global/quota-exceeded", "Quota exceeded."), driver.ErrQuota},
		"invalid":                 {opLaunch, failure(400, "global/invalid-parameters", "Region moon-1 does not exist"), driver.ErrInvalid},
		"file system elsewhere":   {opLaunch, failure(400, "instance-operations/launch/file-system-in-wrong-region", "Requested file system is not in the requested region."), driver.ErrInvalid},
		"unknown part, 404":       {opLaunch, failure(404, "global/object-does-not-exist", "Image does not exist."), driver.ErrInvalid},
		"unknown part, 400":       {opLaunch, failure(400, "global/object-does-not-exist", "Image does not exist."), driver.ErrInvalid},
		"rate limit, text":        {opLaunch, fakecloud.Failure(429, "Too Many Requests", ""), driver.ErrRateLimited},
		"failure in a 200":        {opList, failure(200, "global/internal-error", "oops"), nil},
		"server fails":            {opList, failure(500, "global/internal-error", "oops"), driver.ErrUnavailable},
		"provider is unavailable": {opLaunch, failure(503, "provider/internal-unavailable", "oops"), driver.ErrUnavailable},
		"no list":                 {opList, fakecloud.Reply(200, row{}), driver.ErrUnavailable},
		"list of null":            {opList, data(nil), driver.ErrUnavailable},
		"list without IDs":        {opList, data([]row{{"status": "active"}}), driver.ErrUnavailable},
		"launch of nothing":       {opLaunch, data(row{"instance_ids": []string{}}), driver.ErrUnavailable},
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
				_, err = cloudtest.Launch(t, d, oneA10.Query(), 0)
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
