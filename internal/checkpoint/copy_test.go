package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/transfer"
)

// A copy that arrives on the second try was no failure. One that does not is told once, also if the attempt ends first.
func TestCopyThatArrivesOnTheSecondTryIsNoFailure(t *testing.T) {
	const endless = 1 << 30
	for name, tt := range map[string]struct {
		fails int32 // so many tries
		tries int32 // so many were seen before the attempt ends
		end   func(k *Keeper, n Node)
		errs  int
	}{
		"first try":                 {0, 1, nil, 0},
		"second try":                {1, 2, nil, 0},
		"third try":                 {2, 3, nil, 1},
		"never, and a look at last": {endless, 3, func(k *Keeper, n Node) { _ = k.Last(t.Context(), []Node{n}, true) }, 1},
		"at last":                   {1, 1, func(k *Keeper, n Node) { must(t, k.Last(t.Context(), []Node{n}, true)) }, 0},
		"not at last either":        {endless, 1, func(k *Keeper, n Node) { _ = k.Last(t.Context(), []Node{n}, true) }, 1},
		"the node is lost": {endless, 1, func(k *Keeper, n Node) {
			for range 2 {
				_ = k.Last(t.Context(), nil, false)
			}
		}, 1},
		"the node is lost, after all": {0, 1, func(k *Keeper, n Node) { _ = k.Last(t.Context(), nil, false) }, 0},
		"the task has removed it": {endless, 1, func(k *Keeper, n Node) {
			must(t, os.RemoveAll(filepath.Join(n.Dir, "step-1")))
			must(t, k.Last(t.Context(), []Node{n}, true))
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			every := 20 * time.Millisecond
			if tt.tries == 1 && tt.fails > 0 {
				every = time.Hour // the second try is not Watch's
			}
			n, files := fakeNode(t, 0)
			k, r := newKeeper(t, Config{Every: every})
			restore(t, k, "", n)
			var tries, over atomic.Int32
			files.set(func(op string) error {
				if strings.HasPrefix(op, "fetch") && tries.Add(1) <= tt.fails {
					return syscall.EIO
				}
				return nil
			})
			k.cfg.Transfer = func(Node, string, bool) (transfer.Progress, func(error)) { return nil, func(error) { over.Add(1) } }
			tree{"m": "x"}.save(t, n, "step-1")
			stop := watch(t, k, nil, nil, n)
			until(t, func() bool { return over.Load() >= tt.tries })
			if tt.tries == 1 && tt.fails > 0 { // its error is known
				until(t, func() bool { k.backoff.mu.Lock(); defer k.backoff.mu.Unlock(); return k.backoff.untold != nil })
			}
			if tt.fails < tt.tries {
				until(t, func() bool { _, step := k.Newest(); return step == 1 })
			}
			stop()
			if tt.end != nil {
				tt.end(k, n)
			}
			if got := strings.Count(r.errs(), "step-1 could not be copied"); got != tt.errs {
				t.Errorf("%d failures, want %d: %s", got, tt.errs, r.errs())
			}
		})
	}
}
