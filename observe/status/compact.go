package status

import (
	"time"

	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/internal/runjson"
)

// The stream has parts without what is large, and without what changes all the time: the page fetches that of the parts that it
// shows in detail. What is large is removed before it is mapped, and what is then empty after that.

func compactPool(p observe.Pool) runjson.Pool {
	p.Cost.Nodes = nil
	return runjson.PoolOf(p)
}

func compactNode(n observe.Node) runjson.Node {
	n.Load = nil
	f := runjson.NodeOf(n)
	f.SpentUSD, f.BusySeconds = nil, nil
	return f
}

func compactTask(t observe.Task, now time.Time) runjson.Task {
	t.Attempts, t.Lines = nil, nil
	f := runjson.TaskOf(t, now)
	f.Attempts, f.Lines, f.ETA, f.Stalled = nil, nil, "", false
	return f
}

func compactPhase(p observe.Phase) runjson.Phase {
	p.Lines = nil
	f := runjson.PhaseOf(p)
	f.Lines = nil
	return f
}

func compactFailure(f observe.Failure) runjson.Failure {
	f.Tail, f.Stack = "", ""
	return runjson.FailureOf(f)
}
