//go:build linux

package matrix

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func init() {
	without := map[workShape]string{shapeBroadcast: "a stream has one node at its other end: there is no broadcast of one"}
	workKinds = append(workKinds,
		&workKind{name: "stream", function: true, stream: true, without: without, begin: beginStreams},
		&workKind{name: "inputs", function: true, stream: true, without: without, begin: beginInputs})
	soakStream = pourInTheSoak
}

// streamed is the number of values of a stream. A held stream stops after half of them.
const streamed = 200

// A drop is a value of a stream.
type drop struct {
	I, Attempt, Node int
	Data             []byte
}

func dropOf(i int, n gputrain.NodeInfo) drop {
	return drop{I: i, Attempt: n.Attempt, Node: n.NodeRank, Data: payload(i, 500)}
}

// begin runs at the start of functions with streams, and halfway after half of the values.
func (in chore) begin(ctx context.Context) error {
	n := gputrain.ThisNode(ctx)
	return appendLine(filepath.Join(in.Dir, "ran"), fmt.Sprintln(in.Piece, n.Attempt, n.NodeRank))
}

func (in chore) halfway(ctx context.Context) error {
	if !in.Held {
		return nil
	}
	if err := appendLine(filepath.Join(in.Dir, "half"), in.Piece+"\n"); err != nil {
		return err
	}
	return in.hold(ctx)
}

var pour = gputrain.GeneratorFunc("pour", func(ctx context.Context, in chore, yield func(drop) bool) error {
	if err := in.begin(ctx); err != nil {
		return err
	}
	for i := range streamed {
		if i == streamed/2 {
			if err := in.halfway(ctx); err != nil {
				return err
			}
		}
		if !yield(dropOf(i, gputrain.ThisNode(ctx))) {
			return ctx.Err()
		}
	}
	return nil
})

// A sip is a value for drink. The first one has the arguments.
type sip struct {
	Chore chore
	Drop  drop
}

var drink = gputrain.ConsumerFunc("drink", func(ctx context.Context, ins iter.Seq[sip]) (drop, error) {
	var in chore
	i := 0
	for s := range ins {
		if i == 0 {
			in = s.Chore
			if err := in.begin(ctx); err != nil {
				return drop{}, err
			}
		}
		if err := wantDrop(s.Drop, i); err != nil {
			return drop{}, err
		}
		if i++; i == streamed/2 {
			if err := in.halfway(ctx); err != nil {
				return drop{}, err
			}
		}
	}
	if i != streamed {
		return drop{}, errors.Join(ctx.Err(), fmt.Errorf("%d values of %d", i, streamed))
	}
	return dropOf(i, gputrain.ThisNode(ctx)), nil
})

func wantDrop(d drop, i int) error {
	if d.I != i || string(d.Data) != string(payload(i, 500)) {
		return fmt.Errorf("value %d came with %d bytes in the place of value %d", d.I, len(d.Data), i)
	}
	return nil
}

// streams runs one stream for each piece, all at once. A held stream is under way once half of its values were sent,
// and the other end has received some.
func (w *work) streams(run func(in chore, seen func()) (drop, error)) {
	n := w.plan()
	e2etest.Write(w.t, filepath.Join(w.dir, "half"), nil)
	seen := make([]atomic.Bool, n)
	w.underway = func() bool {
		for i := range w.held {
			if !seen[i].Load() {
				return false
			}
		}
		return e2etest.Lines(filepath.Join(w.dir, "half")) >= len(w.held)
	}
	outcomes := make([]outcome, n)
	var all sync.WaitGroup
	for i := range n {
		piece := strconv.Itoa(i)
		in := chore{
			Dir: w.there, Piece: piece, Held: w.held[i],
			Hog: w.held[i] && w.hog(piece) != "", Disk: w.c.fault.fillsDisk,
		}
		all.Go(func() {
			last, err := run(in, func() { seen[i].Store(true) })
			o := outcome{piece: i, node: last.Node, attempts: last.Attempt}
			if _, wrong := errors.AsType[wrongStream](err); wrong {
				o.wrong = err
			} else {
				o.err = err
			}
			if te, ok := errors.AsType[*gputrain.TaskError](err); ok {
				o.node, o.attempts = te.Node.Rank, te.Attempt
			}
			outcomes[i] = o
		})
	}
	w.wait = func() []outcome {
		all.Wait()
		return outcomes
	}
}

// A wrongStream is a stream that ended without an error, but had wrong values.
type wrongStream struct{ error }

func beginStreams(w *work) {
	w.streams(func(in chore, seen func()) (last drop, err error) {
		i := 0
		for d, err := range pour.Run(w.pool, in) {
			if err != nil {
				return last, err
			}
			if err := wantDrop(d, i); err != nil {
				return d, wrongStream{err}
			}
			if i > 0 && d.Attempt != last.Attempt {
				return d, wrongStream{fmt.Errorf("value %d is of attempt %d, and those before of %d", i, d.Attempt, last.Attempt)}
			}
			seen()
			last = d
			i++
		}
		if i != streamed {
			return last, wrongStream{fmt.Errorf("%d values of %d", i, streamed)}
		}
		return last, nil
	})
}

func beginInputs(w *work) {
	w.streams(func(in chore, seen func()) (drop, error) {
		seen() // only what the function has received counts
		return drink.Run(w.pool, func(yield func(sip) bool) {
			for i := range streamed {
				if !yield(sip{Chore: in, Drop: dropOf(i, gputrain.NodeInfo{})}) {
					return
				}
			}
		})
	})
}

var soakPour = gputrain.GeneratorFunc("soak-pour", func(ctx context.Context, in soakChore, yield func(drop) bool) error {
	n := gputrain.ThisNode(ctx)
	if err := appendLine(in.Ran, fmt.Sprintln(in.ID, n.Attempt)); err != nil {
		return err
	}
	for i := range in.Size {
		if !yield(dropOf(i, n)) {
			return ctx.Err()
		}
	}
	return nil
})

// pourInTheSoak reads a short stream. If its worker was killed, it failed in the attempt that its error names.
func pourInTheSoak(pool *gputrain.Compute, id int, ran string) (attempts int, err error) {
	size, i := 1+id%50, 0
	for d, err := range soakPour.Run(pool, soakChore{ID: id, Ran: ran, Size: size}) {
		if te, ok := errors.AsType[*gputrain.TaskError](err); ok {
			return te.Attempt, err
		}
		if err == nil {
			err = wantDrop(d, i)
		}
		if err != nil {
			return d.Attempt, err
		}
		attempts = d.Attempt
		i++
	}
	if i != size {
		return attempts, fmt.Errorf("%d values of %d", i, size)
	}
	return attempts, nil
}
