package lambda

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A machine that comes up unhealthy, as GH200s do, is ended and replaced.
func TestUnhealthyBootIsReplaced(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{
		Before: func(f *fake) { f.unhealthy = 1 },
		After: func(t *testing.T, f *fake) {
			if n := len(f.Records(opLaunch)); n != 3 {
				t.Errorf("%d launches", n)
			}
		},
	})
}

// A preempted machine that Lambda does not find at its termination is gone, though it is still
// listed: the pool ends without a leak, and its key is removed.
func TestPreemptedMachineThatIsNotFound(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fakecloud.Fault{
		"not found": {Missing: true}, "nothing ended": {Answer: data(row{"terminated_instances": []row{}})},
	} {
		f := startFake(t)
		pool, err := gputrain.Open(t.Context(), standard.Reached(f.config()), oneA10, gputrain.WithStateDir(t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		f.set(pool.Nodes()[0].ID, row{"status": "preempted"})
		fault.Op, fault.Times = opTerminate, -1
		f.Inject(fault)
		if err := pool.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, r := range f.account() {
			if r.Kind == "key" {
				t.Errorf("%s: left: %+v", name, r)
			}
		}
	}
}
