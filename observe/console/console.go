package console

import (
	"context"
	"errors"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/gputrain/gputrain/observe"
)

// A source is what a View shows: a Recorder.
type source interface {
	Run() observe.Run
	Events(ctx context.Context, after int64) iter.Seq[observe.Entry]
}

// closeTimeout bounds how long Close waits for a terminal, or a reader of a pipe, that takes nothing.
const closeTimeout = 3 * time.Second

// A View shows what a Recorder records. The zero View shows nothing. Its methods can be called concurrently.
type View struct {
	stop context.CancelFunc // nil if it shows nothing
	done chan error         // has the View's error when it has ended

	once sync.Once
	err  error
}

// Show shows what r records in f, which is os.Stderr by convention: live if f is a terminal that can show it, and as plain lines
// otherwise. See the package's documentation for the variables that change this. The result is never nil. It shows nothing if r or
// f is nil. What r has recorded before is shown live, but not as lines.
//
// A View never slows a pool: if f takes nothing, the View waits, alone.
func Show(r *observe.Recorder, f *os.File) *View {
	if r == nil || f == nil {
		return &View{}
	}
	return show(r, f, os.Getenv)
}

// show is Show with the variables of an environment.
func show(src source, f *os.File, getenv func(string) string) *View {
	t := openTerminal(f, getenv)
	switch choose(getenv, t) {
	case liveMode:
		l, err := newLive(src, f, t, getenv)
		if err == nil {
			return begin(l.run)
		}
		return begin(newPlain(src, f).run) // without a helper a kill would leave the terminal unusable
	case plainMode:
		return begin(newPlain(src, f).run)
	}
	return &View{}
}

// begin runs a view until the context that it is given ends.
func begin(run func(context.Context) error) *View {
	ctx, stop := context.WithCancel(context.Background())
	v := &View{stop: stop, done: make(chan error, 1)}
	go func() { v.done <- run(ctx) }()
	return v
}

// Close ends the view, gives the whole terminal back, and leaves one line: how many nodes and tasks there were, how long it took,
// and what it cost. There is no such line if nothing was recorded. The error is that of writing to the file, or that the file took
// nothing for three seconds; the view has ended in any case. Closing again returns the same. It can be deferred, and works while
// the program panics.
func (v *View) Close() error {
	if v == nil || v.stop == nil {
		return nil
	}
	v.once.Do(func() {
		v.stop()
		timeout := time.NewTimer(closeTimeout)
		defer timeout.Stop()
		select {
		case v.err = <-v.done:
		case <-timeout.C:
			v.err = errors.New("console: the file takes no output")
		}
	})
	return v.err
}
