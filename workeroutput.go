package gputrain

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/overdue"
	"github.com/gputrain/gputrain/internal/worker"
)

// A workerOutput divides what a worker's process prints among its calls. What comes
// while one call runs is that call's; all else is shown under the node's name.
type workerOutput struct {
	n       *poolNode
	id      string // the process's
	up      func() bool
	streams [2]*workerStream
	last    tail          // of stderr
	ended   chan struct{} // closed when nothing more comes

	mu     sync.Mutex
	open   []*callOutput // those under way
	grown  chan struct{} // closed, and replaced, when something has come; nil without a waiter
	broken bool          // the node lacks some of what was printed
}

// A workerStream is one of the two streams. What comes of it is written to it.
type workerStream struct {
	w    *workerOutput
	i    int
	node *lineWriter // for what is no call's
	mark []byte      // the part of the mark that has come
	on   bool        // all of it has

	// Guarded by w.mu. Offsets are bytes after the mark.
	parts []outputPart // from taken on, in order; the last one has no end
	taken int64        // so much has an owner
	shown int64        // and so much was given to it
}

// An outputPart of a stream is a call's, the node's, or what an earlier program has
// shown.
type outputPart struct {
	of    *callOutput // nil for the node
	shown bool        // it is passed over
	end   int64       // where the next one begins
}

func newWorkerOutput(n *poolNode, id string) *workerOutput {
	w := &workerOutput{n: n, id: id, up: n.isUp, ended: make(chan struct{})}
	outLines, errLines := n.p.out.writers(fmt.Sprintf("node %d", n.rank()))
	for i, lines := range []*lineWriter{outLines, errLines} {
		w.streams[i] = &workerStream{w: w, i: i, node: lines, parts: []outputPart{{}}}
	}
	return w
}

// Write takes what the process has printed. It never fails: that would end the process.
func (s *workerStream) Write(p []byte) (int, error) {
	all := len(p)
	if !s.on {
		p = s.untilMark(p)
	}
	for len(p) > 0 {
		part, n := s.next(len(p))
		if !part.shown {
			s.give(part.of, p[:n])
		}
		p = p[n:]
		s.w.passed(s, n)
	}
	return all, nil
}

// untilMark shows what comes before the mark, and returns what comes after it.
func (s *workerStream) untilMark(p []byte) []byte {
	p = append(s.mark, p...)
	s.mark = nil
	before, after, found := bytes.Cut(p, []byte(worker.OutputMark))
	if !found {
		// The end may be the mark's beginning.
		keep := min(len(worker.OutputMark)-1, len(before))
		for !bytes.HasPrefix([]byte(worker.OutputMark), before[len(before)-keep:]) {
			keep--
		}
		before, s.mark = before[:len(before)-keep], bytes.Clone(before[len(before)-keep:])
	}
	s.on = found
	s.w.mu.Lock()
	earlier := s.parts[0].shown
	s.w.mu.Unlock()
	if !earlier {
		s.give(nil, before)
	}
	return after
}

// next takes the next bytes, n at most, that have one owner.
func (s *workerStream) next(n int) (outputPart, int) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for len(s.parts) > 1 && s.parts[0].end <= s.taken {
		s.parts = s.parts[1:]
	}
	if len(s.parts) > 1 {
		n = int(min(int64(n), s.parts[0].end-s.taken))
	}
	s.taken += int64(n)
	return s.parts[0], n
}

// give hands bytes to a call, or to the node.
func (s *workerStream) give(to *callOutput, p []byte) {
	if s.i == 1 {
		s.w.last.Write(p)
	}
	if to == nil {
		s.node.Write(p)
		return
	}
	to.write(s.i, p)
}

// passed notes that bytes were given to their owner.
func (w *workerOutput) passed(s *workerStream, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.shown += int64(n)
	if w.grown != nil {
		close(w.grown)
		w.grown = nil
	}
}

// handLocked makes all that follows offset at a call's, or the node's. What has an
// owner keeps it.
func (s *workerStream) handLocked(to *callOutput, at int64) {
	start, last := s.taken, &s.parts[len(s.parts)-1]
	if len(s.parts) > 1 {
		start = max(start, s.parts[len(s.parts)-2].end)
	}
	switch at = max(at, start); {
	case last.of == to && !last.shown:
	case at == start: // the last part is empty
		*last = outputPart{of: to}
	default:
		last.end = at
		s.parts = append(s.parts, outputPart{of: to})
	}
}

func (w *workerOutput) handLocked(to *callOutput, at worker.Printed) {
	for i, s := range w.streams {
		s.handLocked(to, at[i])
	}
}

// begin makes what is printed from now on that of a call, if no other one runs.
func (w *workerOutput) begin(u *unit) *callOutput {
	c := w.of(u)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = append(w.open, c)
	if len(w.open) == 1 {
		w.handLocked(c, worker.Printed{})
		return c
	}
	for _, c := range w.open {
		c.crowded = true
	}
	w.handLocked(nil, worker.Printed{})
	return c
}

// A foundCall is a call that was found in a process, with its output if it is wanted.
type foundCall struct {
	worker.HeldCall
	output *callOutput
}

// resume divides the whole output of a process that was found, before any of it is
// written: what comes before the oldest of its calls was shown by an earlier program.
func (w *workerOutput) resume(found []foundCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(found, func(a, b foundCall) int {
		return cmp.Or(cmp.Compare(a.From[0], b.From[0]), cmp.Compare(a.From[1], b.From[1]))
	})
	for _, s := range w.streams {
		s.parts = []outputPart{{shown: true}}
	}
	for _, f := range found {
		w.handLocked(nil, f.From)
		if f.output == nil {
			continue
		}
		f.output.crowded = !f.Alone
		if f.Alone {
			w.handLocked(f.output, f.From)
		}
		if f.Alone && f.Finished {
			w.handLocked(nil, f.To)
		}
		if !f.Finished {
			w.open = append(w.open, f.output)
		}
	}
}

// leave ends a call's part, at the offset that it returns. What follows may be the
// last other call's. It reports whether the call is to wait for what was printed: it is
// if it ran alone, or is the last of those that ran at the same time and output is
// shown. So one that prints without end does not hold up the others, and yet nothing
// is missing when all are over.
func (w *workerOutput) leave(c *callOutput, stats worker.Stats, goesOn bool) (at worker.Printed, waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at = stats.Printed
	if !stats.Answered { // the process is dead, and this is all
		for i, s := range w.streams {
			at[i] = s.taken
		}
	}
	if goesOn {
		return at, stats.Answered && !c.crowded
	}
	if i := slices.Index(w.open, c); i >= 0 { // or it was over when it was found
		w.open = slices.Delete(w.open, i, i+1)
		switch len(w.open) {
		case 0:
			w.handLocked(nil, at)
		case 1:
			w.handLocked(w.open[0], at)
		}
	}
	return at, !c.crowded || len(w.open) == 0 && w.n.p.out.live()
}

// reached reports whether so much has come, and else returns what to wait for.
func (w *workerOutput) reached(to worker.Printed) (shown int64, all bool, grown <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all = true
	for i, s := range w.streams {
		shown += s.shown
		all = all && s.shown >= to[i]
	}
	if all {
		return shown, true, nil
	}
	if w.grown == nil {
		w.grown = make(chan struct{})
	}
	return shown, false, w.grown
}

const (
	// A node that can be reached, and sends less than outputLeast bytes of what a
	// function has printed within outputPatience and outputSlack, has not kept it:
	// its disk may be full. Nothing more of that process is waited for.
	outputPatience = 10 * time.Second
	outputSlack    = 20 * time.Second
	outputLeast    = 64 << 10
	// After the end of its context, a call waits so much longer for its output.
	outputGrace = 10 * time.Second
)

// await waits until all that was printed until offset to has come. It is false if that
// does not happen.
func (w *workerOutput) await(ctx context.Context, to worker.Printed) bool {
	w.mu.Lock()
	broken := w.broken
	w.mu.Unlock()
	before, all, grown := w.reached(to)
	if all || broken {
		return all
	}
	defer w.n.super.Hasten(w.id)()
	late := overdue.New(outputPatience, outputSlack, w.up)
	defer func() { late.Stop() }()
	done := ctx.Done()
	var hurry <-chan time.Time
	for !all {
		select {
		case <-grown:
		case <-w.ended:
			_, all, _ = w.reached(to)
			return all
		case <-done:
			done, hurry = nil, time.After(outputGrace)
		case <-hurry:
			return false
		case <-late.Due():
			if !late.Over() {
				continue
			}
			if w.gaveUp() {
				return false
			}
			late = overdue.New(outputPatience, outputSlack, w.up)
		}
		var now int64
		if now, all, grown = w.reached(to); now >= before+outputLeast {
			late.Restart()
			before = now
		}
	}
	return true
}

// gaveUp notes that the node lacks some output. It is false while what has come is not
// taken off by the program's own writer.
func (w *workerOutput) gaveUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.streams {
		if s.taken > s.shown {
			return false
		}
	}
	w.broken = true
	return true
}

// end ends both streams, when nothing more comes.
func (w *workerOutput) end() {
	for _, s := range w.streams {
		if len(s.mark) > 0 {
			s.give(nil, s.mark)
		}
		s.node.flush()
	}
	w.mu.Lock()
	open := slices.Clone(w.open)
	w.mu.Unlock()
	for _, c := range open {
		c.flush()
	}
	close(w.ended)
}
