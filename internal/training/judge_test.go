//go:build unix

package training

import (
	"errors"
	"testing"

	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/launcher"
)

// A failure before the first attempt has begun is judged with any launcher.
func TestOrderBeforeTheFirstAttempt(t *testing.T) {
	for _, l := range []launcher.Launcher{launcher.Processes, launcher.Torchrun, launcher.MPI} {
		one := New(Config{Nodes: 2, Processes: 2, Launcher: l})
		failed := errors.New("no port")
		e := &gang.Attempt{Number: 1, Nodes: []gang.Node{&cutNode{}, &cutNode{}}}
		failures := one.Order(e, []gang.Failure{{Kind: gang.NeverStarted, Node: 1, Share: -1, Rank: -1, Err: failed}})
		if len(failures) != 1 || failures[0].Node != 1 || !errors.Is(failures[0].Err, failed) {
			t.Errorf("launcher %v: %+v", l, failures)
		}
	}
}
