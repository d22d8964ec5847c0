package calls

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/worker"
)

// A callOutput is the output of one call, as far as it can be separated.
type callOutput struct {
	divider *divider
	attempt *attempt.Attempt
	before  worker.Printed // the divider's awaited when the call began
	crowded bool           // another call ran beside it; guarded by divider.mu

	mu     sync.Mutex
	spools [2]*output.Spool // nil until something is printed
	lines  [2]*output.Lines // the same
	steps  [2]*attempt.Listener
	made   bool
	over   bool  // nothing more is kept
	err    error // why it could not be kept
}

// newCall returns the output of a call that is about to begin.
func (d *divider) newCall(a *attempt.Attempt) *callOutput {
	c := &callOutput{divider: d, attempt: a}
	if a.Watch != nil {
		c.make()
		a.Watch(c.spools[0], c.spools[1])
	}
	return c
}

// make makes the spools and lines. Most calls print nothing and need none of it.
func (c *callOutput) make() {
	if c.made {
		return
	}
	c.made = true
	r := c.divider.runner
	c.lines[0], c.lines[1] = r.Printer.Lines(c.attempt.From)
	c.spools[0], c.spools[1] = r.Results.Spools(c.attempt.Share, c.attempt.ID, c.lines[0], c.lines[1])
	c.steps = [2]*attempt.Listener{r.Listen(c.attempt), r.Listen(c.attempt)}
}

func (c *callOutput) write(i int, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.make()
	c.steps[i].Write(p)
	if !c.over && c.err == nil {
		if _, c.err = c.spools[i].Write(p); c.err == nil {
			return // which is shown too
		}
	}
	c.lines[i].Write(p)
}

func (c *callOutput) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, l := range c.lines {
		l.Flush()
		c.steps[i].Flush()
	}
}

// finish waits for the call's output until its end, and puts it into the outcome. It returns why that could not be
// kept. If the function goes on, its output is still shown, and waited for only if the node has answered for it.
func (c *callOutput) finish(ctx context.Context, o *attempt.Outcome, stats worker.Stats, goesOn bool) error {
	at, waits := c.divider.leave(c, stats, goesOn)
	return c.close(o, !waits || c.divider.await(ctx, at))
}

// close puts the kept output into an outcome. whole means that it is all of the call's output.
func (c *callOutput) close(o *attempt.Outcome, whole bool) error {
	c.divider.mu.Lock()
	crowded := c.crowded
	c.divider.mu.Unlock()
	c.flush()
	c.mu.Lock()
	defer c.mu.Unlock()
	o.Truncated = !whole
	if c.over = true; !c.made {
		return nil
	}
	if crowded {
		stdout, _ := c.spools[0].Close()
		stderr, _ := c.spools[1].Close()
		if c.attempt.Watch == nil { // otherwise readers may have the files open
			_, _ = os.Remove(stdout.File), os.Remove(stderr.File)
		}
		return nil
	}
	return errors.Join(c.err, o.SetOutput(c.spools[0], c.spools[1]))
}
