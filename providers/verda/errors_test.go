package verda

import (
	"fmt"
	"testing"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The API's text determines the kind of a failure before the status does.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status        int
		code, message string
		want          error
	}{
		{401, "unauthorized_request", "Invalid client id or client secret", driver.ErrAuth},
		{403, "forbidden_action", "Insufficient scope", driver.ErrAuth},
		{402, "insufficient_funds", "Top up", driver.ErrBalance},
		{402, "payment_required", "pay", driver.ErrBalance},
		{400, "invalid_request", "Volume limit exceeded", driver.ErrQuota},
		{400, "invalid_request", "Storage quota reached", driver.ErrQuota},
		{400, "invalid_request", "hostname is too long", driver.ErrInvalid},
		{503, "service_unavailable", "No capacity available", driver.ErrNoCapacity},
		{503, "service_unavailable", "Maintenance", driver.ErrUnavailable},
		{500, "server_error", "oops", driver.ErrUnavailable},
		{404, "not_found", "Instance not found", driver.ErrNotFound},
		{404, "", "", driver.ErrUnavailable}, // of a gateway
		{400, "invalid_request", "Invalid instance id", driver.ErrNotFound},
		{403, "forbidden_action", "Can't discontinue a discontinued instance", driver.ErrNotFound},
		{403, "forbidden_action", "Can't discontinue a provisioning instance", driver.ErrUnavailable},
		{429, "rate_limit_exceeded", "slow down", driver.ErrRateLimited},
	} {
		t.Run(fmt.Sprintf("%d %s", tt.status, tt.message), func(t *testing.T) {
			t.Parallel()
			f := still(t)
			d := cloudtest.Open(t, f.config())
			answer := failure(tt.status, tt.code, tt.message)
			if tt.code == "" {
				answer = fakecloud.Failure(tt.status, "<html>not here</html>", "")
			}
			f.Inject(fakecloud.Fault{Op: opList, Times: -1, Answer: answer})
			_, err := d.List(t.Context(), "")
			cloudtest.Is(t, err, tt.want, "verda", "list", testSecret)
		})
	}
}

// Incomplete answers are errors, never empty ones.
func TestIncompleteAnswers(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, driver.Query{}, 0)
	for op, bodies := range map[string][]string{
		opList:    {`null`, `[{"status":"running"}]`, `{"instances":[]}`},
		opVolumes: {`null`, `[{"name":"x"}]`},
		opTrash:   {`null`},
		opKeys:    {`null`, `[{"name":"gputrain-p1"}]`},
	} {
		for _, body := range bodies {
			odd := f.Inject(fakecloud.Fault{Op: op, Answer: fakecloud.Reply(200, body), Times: -1})
			_, err := d.List(t.Context(), "p1")
			cloudtest.Is(t, err, rest.ErrAnswer, "verda", "list")
			odd.Remove()
		}
	}
	f.Inject(fakecloud.Fault{Op: opGet, Answer: fakecloud.Reply(200, `{"id":"another","status":"running"}`)})
	_, err := d.Describe(t.Context(), in.ID)
	cloudtest.Is(t, err, rest.ErrAnswer, "verda", "describe")
	f.Inject(fakecloud.Fault{Op: opAct, Answer: fakecloud.Reply(202, `[{"instanceId":"another","status":"success"}]`)})
	cloudtest.Is(t, d.Terminate(t.Context(), in.ID), rest.ErrAnswer, "verda", "terminate")
	f.Inject(fakecloud.Fault{Op: opBalance, Answer: fakecloud.Reply(200, `{}`)})
	_, err = f.config().Open(t.Context())
	cloudtest.Is(t, err, rest.ErrAnswer, "verda", "open")
}
