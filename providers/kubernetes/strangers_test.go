package kubernetes

import (
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A Job that is older than its annotations say, and a pod that no Job has made, are a stranger's, whatever their labels: Reap names
// them and leaves them alone.
func TestStrangersJobs(t *testing.T) {
	for name, change := range map[string]func(*fake){
		"an old Job":       func(f *fake) { f.jobs["p1-0"].Metadata.CreationTimestamp = time.Now().AddDate(0, -1, 0) },
		"a pod of its own": func(f *fake) { f.podOf("p1-0").Metadata.OwnerReferences = nil; delete(f.jobs, "p1-0") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			d := cloudtest.Open(t, f.config())
			cloudtest.MustLaunch(t, d, standard.Spec.Query(), 0)
			var pod *pod
			for until := time.Now().Add(time.Minute); pod == nil && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
				f.Do(func() { f.reconcile(); pod = f.podOf("p1-0") })
			}
			over := time.Now().AddDate(0, 0, -1).UTC().Format(time.RFC3339)
			f.Do(func() {
				f.jobs["p1-0"].Metadata.Annotations[keyExpires], pod.Metadata.Annotations[keyExpires] = over, over
				change(f)
			})
			before := len(f.account())
			ended, err := gputrain.StateDir(t.TempDir()).Reap(t.Context(), f.config())
			if len(ended) != 0 || err == nil || !strings.Contains(err.Error(), "machine p1-0") || !strings.Contains(err.Error(), "left alone") || len(f.account()) != before {
				t.Errorf("ended %+v, %v; there is %+v", ended, err, f.account())
			}
		})
	}
}
