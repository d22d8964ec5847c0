package console

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/gputrain/gputrain/observe"
)

const (
	// summaryTime is the time between two lines that sum up, while anything runs.
	summaryTime = 30 * time.Second
	// drainTime bounds how long the end of a plain view waits for lines that were recorded before.
	drainTime = 2 * time.Second
)

// A plain view writes lines.
type plain struct {
	src   source
	after int64 // what was recorded before is not written

	mu      sync.Mutex
	w       io.Writer
	err     error // the first of writing
	changes changes
	limit   limiter
	seq     int64         // of what was written last
	wrote   chan struct{} // has a value when seq has changed
	last    time.Time     // when a line summed up last
}

func newPlain(src source, w io.Writer) *plain {
	return &plain{src: src, w: w, after: src.Run().Seq, wrote: make(chan struct{}, 1)}
}

// run writes lines until ctx ends, and then what was recorded until then.
func (p *plain) run(ctx context.Context) error {
	events, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range p.src.Events(events, p.after) {
			p.take(e)
		}
	}()
	p.last = time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			p.tick(time.Now())
		case <-ctx.Done():
		}
	}
	p.drain(ended)
	stop()
	<-ended
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.write(now, p.limit.flush())
	p.write(now, closingLine(p.src.Run()))
	return p.err
}

// drain returns when everything that was recorded before it was called is written, or after drainTime.
func (p *plain) drain(ended <-chan struct{}) {
	until := p.src.Run().Seq
	timeout := time.NewTimer(drainTime)
	defer timeout.Stop()
	for {
		p.mu.Lock()
		over := max(p.seq, p.after) >= until
		p.mu.Unlock()
		if over {
			return
		}
		select {
		case <-p.wrote:
		case <-ended:
			return
		case <-timeout.C:
			return
		}
	}
}

// take writes the line of an entry, if it has one.
func (p *plain) take(e observe.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Event != nil {
		for _, l := range p.changes.lines(e.Event) {
			if skipped, ok := p.limit.allow(l.many, e.Event.Time); ok {
				p.write(e.Event.Time, skipped)
				p.write(e.Event.Time, l.text)
			}
		}
	}
	p.seq = e.Seq
	select {
	case p.wrote <- struct{}{}:
	default:
	}
}

// tick writes what is due at a time.
func (p *plain) tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(now, p.limit.expire(now))
	if now.Sub(p.last) < summaryTime {
		return
	}
	p.last = now
	if run := p.src.Run(); isBusy(run) {
		p.write(now, plainSummary(run))
	}
}

// write writes a line with its time. p.mu is held.
func (p *plain) write(at time.Time, text string) {
	if text == "" {
		return
	}
	if _, err := io.WriteString(p.w, at.Local().Format(time.TimeOnly)+" "+text+"\n"); err != nil && p.err == nil {
		p.err = err
	}
}

// isBusy reports whether anything runs, or is waited for.
func isBusy(run observe.Run) bool {
	open := openPools(run)
	if run.Counts.Running+run.Counts.Waiting > 0 && len(open) > 0 {
		return true
	}
	for _, p := range run.Pools {
		if open[p.ID] && (p.State != "ready" || p.Waiting != "") {
			return true
		}
	}
	for _, n := range run.Nodes {
		if open[n.Pool] && n.Gone.IsZero() && n.State != "ready" {
			return true
		}
	}
	for _, ph := range run.Phases {
		if open[ph.Pool] && isRunning(ph) {
			return true
		}
	}
	for _, m := range transfers(run) {
		if open[m.pool] {
			return true
		}
	}
	return false
}
