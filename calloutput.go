package gputrain

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/gputrain/gputrain/internal/worker"
)

// A callOutput is what one call prints, as far as that can be told.
type callOutput struct {
	w       *workerOutput
	u       *unit
	attempt string // its ID
	share   *outputShare
	crowded bool // another call ran beside it; guarded by w.mu

	mu     sync.Mutex
	spools [2]*spool      // nil until something is printed
	lines  [2]*lineWriter // the same
	made   bool
	over   bool  // nothing more is kept
	err    error // why it could not be kept
}

// of returns the output of a call that is about to begin.
func (w *workerOutput) of(u *unit) *callOutput {
	c := &callOutput{w: w, u: u, attempt: u.attemptID(), share: u.outputs()}
	if u.job != nil {
		c.make()
		u.job.show(c.spools[0], c.spools[1])
	}
	return c
}

// make makes what the output goes to: most calls print nothing.
func (c *callOutput) make() {
	if c.made {
		return
	}
	c.made = true
	p := c.w.n.p
	c.lines[0], c.lines[1] = p.out.writers(c.u.label)
	most := p.opts.limits.outputBytes()
	for i, name := range []string{"stdout", "stderr"} {
		c.spools[i] = newSpool(p.results, c.share, c.attempt, name, most, c.lines[i])
	}
}

func (c *callOutput) write(i int, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.make()
	if !c.over && c.err == nil {
		if _, c.err = c.spools[i].Write(p); c.err == nil {
			return // shown too
		}
	}
	c.lines[i].Write(p)
}

func (c *callOutput) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		l.flush()
	}
}

// finish waits for what the call has printed until its end, and puts it into the
// result. It returns why that could not be kept. What a function prints that goes on
// is still shown, and not waited for unless the node has answered for it.
func (c *callOutput) finish(ctx context.Context, r *Result, stats worker.Stats, goesOn bool) error {
	at, waits := c.w.leave(c, stats, goesOn)
	return c.close(r, !waits || c.w.await(ctx, at))
}

// close puts what is kept into a result.
func (c *callOutput) close(r *Result, whole bool) error {
	c.w.mu.Lock()
	crowded := c.crowded
	c.w.mu.Unlock()
	c.flush()
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Truncated = !whole
	if c.over = true; !c.made {
		return nil
	}
	stdout, stderr := c.spools[0], c.spools[1]
	outFile, outErr := stdout.close()
	errFile, errErr := stderr.close()
	if crowded {
		if c.u.job == nil { // whose readers may have it open
			_, _ = os.Remove(outFile), os.Remove(errFile)
		}
		return nil
	}
	r.Stdout, r.Stderr, r.StdoutFile, r.StderrFile = stdout.kept, stderr.kept, outFile, errFile
	r.StdoutBytes, r.StderrBytes = stdout.n, stderr.n
	r.Truncated = r.Truncated || stdout.cut() || stderr.cut()
	return errors.Join(c.err, outErr, errErr)
}
