package crash

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/faketools"
	"github.com/gputrain/gputrain/providers/ssh"
)

func init() {
	victimWork["watches"] = func(*gputrain.Compute, victim) { select {} }
}

// samplers returns the processes on a machine with the tools that sample its accelerators.
func samplers(f *faketools.Tools) []string {
	return slices.DeleteFunc(f.Running(), func(command string) bool {
		return !strings.Contains(command, "gputrain-usage") && !strings.Contains(command, "nvidia-smi") && !strings.HasPrefix(command, "tail -n +1 -f")
	})
}

// A program is killed while it samples the accelerators of a host, also if nvidia-smi hangs. Its sampler ends long before its lease.
func TestKilledProgramLeavesNoSampler(t *testing.T) {
	for name, hangs := range map[string]bool{"samples": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := faketools.New(t, 2)
			host := e2etest.NewHost(t, "PATH="+f.Dir+":"+os.Getenv("PATH"))
			v := victim{State: t.TempDir(), Name: "sampled", Hosts: []ssh.Host{host.Host()}, Work: "watches", Spec: gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2)), Lease: 10 * time.Minute}}
			child := v.start(t)
			child.Await("usage sample")
			if hangs {
				f.Hang()
				e2etest.Until(t, "nvidia-smi hangs", func() bool {
					return slices.ContainsFunc(f.Running(), func(c string) bool { return strings.HasPrefix(c, "sleep 1000") })
				})
			}
			child.Kill()
			e2etest.Until(t, "no sampler is left", func() bool { return len(samplers(f)) == 0 })
			pool, err := gputrain.Attach(t.Context(), v.provider(), v.Name, gputrain.WithStateDir(v.State))
			if err != nil {
				t.Fatal(err)
			}
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
			e2etest.Until(t, "nothing is left", func() bool { return len(samplers(f)) == 0 })
		})
	}
}
