package observe

import (
	"fmt"

	"github.com/gputrain/gputrain"
)

func (s *state) transferred(p *pool, ev *gputrain.Event) {
	what := ev.Path
	switch {
	case what != "":
	case ev.Phase != "":
		what = ev.Phase
	case ev.Task != "":
		what = "outputs"
	}
	key := fmt.Sprintf("%d\x00%s\x00%d\x00%s", ev.Node, ev.Task, ev.Attempt, what)
	t := p.moving[key]
	over := ev.State == "done" || ev.State == "failed"
	if t == nil {
		t = &Transfer{Pool: p.ID, Node: p.keyOf(ev), Rank: ev.Node, Task: ev.Task, Name: ev.Name, What: what, Began: ev.Time.Add(-ev.Elapsed)}
		s.transfers.add(t, keptTransfers, func(old *Transfer) bool { return old.State == "done" || old.State == "failed" })
		p.moving[key] = t
	}
	t.State, t.At = ev.State, ev.Time
	if ev.Bytes > 0 || ev.TotalBytes > 0 {
		t.Bytes, t.Total, t.BytesPerSecond = ev.Bytes, ev.TotalBytes, ev.BytesPerSecond
	}
	if over {
		delete(p.moving, key)
	}
	if ev.Err != nil {
		t.Err = textOf(ev.Err)
		s.fail(p, ev, "transfer")
	}
}
