package supervisor

import (
	"context"
	"testing"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// One machine may run several nodes of a pool. The end of one must not affect the others.
func TestEndOfANeighbour(t *testing.T) {
	c := connect(t, opensshtest.Start(t), "")
	mine, theirs := config(t, "perl"), config(t, "perl")
	mine.Name, theirs.Name = mine.PoolID+"-0", mine.PoolID+"-1"
	theirs.PoolID = mine.PoolID

	n := start(t, c, mine)
	neighbour, err := Start(t.Context(), c, theirs)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started, over := make(chan struct{}), make(chan result, 1)
	go func() { over <- runCtx(ctx, n, Spec{Args: []string{"sleep", "600"}}, func() { close(started) }) }()
	<-started
	if err := neighbour.Close(t.Context(), true); err != nil {
		t.Error(err)
	}
	if r := run(t, n, Spec{Args: []string{"true"}}); r.err != nil || r.Code != 0 {
		t.Errorf("the node after the end of its neighbour: %+v", r)
	}
	cancel()
	if r := <-over; r.Cause != Cancelled {
		t.Errorf("what ran beside the neighbour ended by itself: %+v", r)
	}
}
