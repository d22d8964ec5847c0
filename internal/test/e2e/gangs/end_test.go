//go:build unix

package gangs

import (
	"context"
	"errors"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// A training that is cancelled, or whose pool is closed, ends in every state, and leaves nothing on the nodes.
func TestEndInEveryState(t *testing.T) {
	slow(t)
	const child = `setsid sh -c 'trap "" TERM; : >"$1/child.$2"; sleep 600' sh "$d" "$RANK" >/dev/null 2>&1 &
until [ -e "$d/child.0" ] && [ -e "$d/child.1" ]; do sleep 0.05; done
`
	// One node: several of pools that open at the same time could be refused a port.
	for _, tt := range []struct {
		state  string // in which it ends
		script string
		check  string
		busy   bool
	}{
		{state: "1 waiting", script: "true", busy: true},
		{state: "1 starting", script: "true", check: child + "await never"},
		{state: "1 running", script: child + "sleep 600"},
		{state: "1 failing", script: `trap 'await go; exit 4' TERM; ` + child + `[ $RANK = 1 ] || exit 3; while :; do sleep 0.1; done`},
		{state: "4 restarting", script: child + `echo "gputrain: step=$GPUTRAIN_ATTEMPT"; exit 3`}, // which pauses for 4 s
	} {
		for _, how := range []string{"cancelled", "closed", "pool's context"} {
			t.Run(tt.state+" "+how, func(t *testing.T) {
				t.Parallel()
				d := newDiary(t)
				var s states
				life, die := context.WithCancel(t.Context())
				defer die()
				pool := e2etest.OpenIn(t, life, gputrain.Spec{}, gputrain.WithEvents(s.add))
				var busy *gputrain.Job
				if tt.busy {
					task := d.script(`note busy; sleep 600`)
					busy = pool.Start(task)
					d.await(t, "  busy")
				}
				training := named("x", d.script(tt.script))
				training.Restarts, training.ProcessesPerNode = 5, 2
				if tt.check != "" {
					training.Check = d.script(tt.check)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				var r gputrain.TrainResult
				go func() {
					var err error
					r, err = pool.WithContext(ctx).Train(training)
					ended <- err
				}()
				s.await(t, "x", tt.state)
				if tt.state == "1 running" || tt.state == "1 starting" {
					e2etest.Until(t, "the child", func() bool { return e2etest.Exists(string(d) + "/child.1") })
				}
				want := error(context.Canceled)
				closed := make(chan error, 1)
				switch how {
				case "cancelled":
					cancel()
				case "closed":
					want = gputrain.ErrClosed
					go func() { closed <- pool.Close() }()
				default:
					die()
					go func() { closed <- pool.Close() }()
				}
				d.allow(t, "go")
				if err := <-ended; !errors.Is(err, want) {
					t.Errorf("%v, not %v", err, want)
				}
				if how != "cancelled" {
					if err := <-closed; err != nil {
						t.Error(err)
					}
				}
				nothingLeft(t, pool.ID())
				if tt.state == "4 restarting" && len(r.Attempts) != 4 {
					t.Errorf("%d attempts", len(r.Attempts))
				}
				if how != "cancelled" {
					return
				}
				if busy != nil {
					busy.Cancel()
					busy.Wait()
				}
				nodesWork(t, pool)
				if r, err := pool.Train(named("x", d.script("note again"))); err != nil || len(r.Attempts) != 1 {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
	}
}
