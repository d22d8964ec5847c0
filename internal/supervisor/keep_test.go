//go:build unix

package supervisor

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// A node of a machine that cannot end itself ends what runs when its lease is over, and keeps what has ended: a client of the
// same generation that comes back has it, and what was cut off is known to be. A later client has it too.
func TestLapsedNodeIsTakenBack(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		const lease = 6
		cfg := config(t, shell)
		cfg.Lease, cfg.SelfDestruct = lease*time.Second, Keep
		glass := newHourglass(t, &cfg)
		n := begin(t, srv, cfg)
		dir := t.TempDir()
		n.launch(t, Spec{ID: "ends", Script: "until [ -e '" + dir + "/go' ]; do sleep 0.05; done; echo result; echo over >'" + dir + "/over'; exit 7", Scratch: true})
		n.launch(t, Spec{ID: "runs", Script: "echo begun; sleep 600", Scratch: true})
		if r := run(t, n.Node, Spec{ID: "old", Script: "echo old", Scratch: true}); r.err != nil {
			t.Fatalf("%+v", r)
		}
		n.kill()
		touch(t, dir+"/go")
		await(t, dir+"/over")
		glass.pass(t, n.Node, 3*lease)
		until(t, "the end of what runs", func() bool { return len(processes(t, "GPUTRAIN_TASK=runs")) == 0 })
		for _, generation := range []int{1, 2} {
			again, found := attach(t, srv, n.Node, generation)
			if len(found) != 3 || !found["ends"].Over || found["runs"].ID == "" || !found["old"].Over { // what was cut off ends a moment later
				t.Fatalf("generation %d: %+v", generation, found)
			}
			if generation == 2 {
				ended, old, cut := resume(t, again, "ends"), resume(t, again, "old"), resume(t, again, "runs")
				if ended.err != nil || ended.Cause != Exited || ended.Code != 7 || ended.out != "result\n" || old.err != nil || old.out != "old\n" {
					t.Errorf("what had ended: %+v, %+v", ended, old)
				}
				if cut.err != nil || cut.Cause != Lapsed || cut.out != "begun\n" {
					t.Errorf("what was cut off: %+v", cut)
				}
				if r := run(t, again, Spec{ID: "new", Script: "echo new"}); r.err != nil || r.out != "new\n" {
					t.Errorf("%+v", r)
				}
			}
		}
	})
}

// Its TTL ends such a node for good.
func TestKeptNodeEndsWithItsTTL(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		cfg := config(t, shell)
		cfg.Lease, cfg.TTL, cfg.SelfDestruct = 4*time.Second, 15*time.Second, Keep
		glass := newHourglass(t, &cfg)
		n := begin(t, srv, cfg)
		n.launch(t, Spec{ID: "a", Script: "sleep 600"})
		n.kill()
		glass.pass(t, n.Node, 12)
		if seconds := glass.lapses(t, n.Node); seconds < 2 || seconds > 3 {
			t.Errorf("the rest of the TTL is %d seconds", seconds)
		}
	})
}
