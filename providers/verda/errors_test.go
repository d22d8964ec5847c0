package verda

import (
	"testing"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

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
