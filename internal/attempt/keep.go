package attempt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/transfer"
)

// KeepPatience bounds how long the output files of an attempt are brought after its task was cancelled, or its node given
// up. The end of its process is part of that time.
const KeepPatience = time.Minute

// EndPatience is longer than all that waits for KeepPatience.
const EndPatience = KeepPatience + 5*time.Second

// A Keeper brings the output files of one attempt: again and again while it runs, if SyncEvery is set, and at its end.
type Keeper struct {
	runner *Runner
	node   Node
	a      *Attempt
	// places returns the scratch directory and the file that marks the start, once the attempt has begun.
	places  func() (scratch, marker string)
	resumed bool // an earlier program may have brought files
	counted bool // by Keeping

	ctx    context.Context // ends KeepPatience after the attempt's
	cancel context.CancelCauseFunc
	stop   chan struct{}  // closed at the attempt's end
	syncs  sync.WaitGroup // the goroutine that syncs
	copies *transfer.Copies
	said   string // the text of the last error of a sync
}

// Keep returns what brings the files of an attempt that is about to begin, or to be resumed, or nil if it has no Outputs.
// Its context ends with ctx. The caller calls Finish at the attempt's end.
func (r *Runner) Keep(ctx context.Context, n Node, a *Attempt, resumed bool, places func() (scratch, marker string)) *Keeper {
	if len(a.Outputs) == 0 {
		return nil
	}
	k := &Keeper{runner: r, node: n, a: a, places: places, resumed: resumed, stop: make(chan struct{})}
	k.ctx, k.cancel = outlasting(ctx, KeepPatience)
	if k.counted = !a.DropIfCancelled; k.counted {
		r.Keeping.add()
	}
	return k
}

// outlasting returns a context that ends a while after ctx.
func outlasting(ctx context.Context, while time.Duration) (context.Context, context.CancelCauseFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		over := time.AfterFunc(while, func() {
			cancel(fmt.Errorf("they did not come within %v of the end of the task: %v", while, context.Cause(ctx)))
		})
		context.AfterFunc(longer, func() { over.Stop() })
	})
	return longer, func(why error) {
		stop()
		cancel(why)
	}
}

// Begin starts to sync, once the attempt runs.
func (k *Keeper) Begin() {
	if k == nil || k.a.SyncEvery <= 0 {
		return
	}
	k.syncs.Go(func() {
		tick := time.NewTicker(k.a.SyncEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-k.stop:
				return
			}
			k.sync()
		}
	})
}

// sync brings what has changed.
func (k *Keeper) sync() {
	ctx, cancel := k.ctx, func() {}
	if k.a.DropIfCancelled {
		ctx, cancel = k.untilCancelled()
	}
	defer cancel()
	err := k.bring(ctx)
	switch {
	case err == nil:
		k.said = ""
	case ctx.Err() != nil, errors.Is(err, transfer.ErrUnsettled), k.a.SyncFailed == nil:
	case k.said != err.Error():
		k.said = err.Error()
		k.a.SyncFailed(k.runner.Secrets.Error(err))
	}
}

// untilCancelled returns a context that ends with the task.
func (k *Keeper) untilCancelled() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(k.ctx)
	stop := context.AfterFunc(k.a.Context, func() { cancel(context.Cause(k.a.Context)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// bring brings what has changed since the last time, from all places.
func (k *Keeper) bring(ctx context.Context) error {
	if k.copies == nil {
		dir, err := k.runner.outputDir(k.a)
		if err != nil {
			return err
		}
		c := transfer.NewCopies(dir)
		if k.resumed {
			if err := c.Recall(); err != nil {
				return err
			}
		}
		k.copies = c
	}
	var unsettled error
	for _, place := range k.folders() {
		place.Limits = k.runner.Files
		err := k.a.reported(&place, func() error {
			return k.node.Files().Bring(ctx, patternsOf(k.a.Outputs).all, k.copies, place)
		})
		switch {
		case errors.Is(err, transfer.ErrUnsettled):
			unsettled = err
		case err != nil:
			return transfer.Explain(err, "")
		}
	}
	return unsettled
}

// reported calls do, which brings files from a place, with the place's Progress set.
func (a *Attempt) reported(place *transfer.FetchOptions, do func() error) error {
	if a.Receiving == nil {
		return do()
	}
	progress, end := a.Receiving()
	place.Progress = progress
	err := do()
	end(err)
	return err
}

// folders are where output files are looked for: in Dir those that changed since the attempt began, so that none is an
// older attempt's, and in the scratch directory all.
func (k *Keeper) folders() []transfer.FetchOptions {
	scratch, marker := k.places()
	return []transfer.FetchOptions{{Dir: k.a.Dir, Since: marker}, {Dir: scratch}}
}

// Finish brings the files of an attempt that is over into its outcome, whose Failure says how it ended. ended reports
// that its end on the node is known. It waits for the files, but not longer than KeepPatience after the end of the
// context. If the attempt has failed before, it stays the failure that it was, and an error of the files is added to its
// text.
func (k *Keeper) Finish(o *Outcome, ended bool) {
	if k == nil {
		return
	}
	close(k.stop)
	k.syncs.Wait()
	defer k.runner.Results.DropEmpty(k.a.ID)
	defer k.cancel(nil)
	if k.counted {
		defer k.runner.Keeping.done()
	}
	switch f := o.Failure; {
	case f == nil:
		o.Failure = k.collect(o)
	case ended && f.Cause != NodeLost && f.Cause != NeverStarted && !(f.Cause == Cancelled && k.a.DropIfCancelled):
		if err := k.bring(k.ctx); err != nil {
			if cause := context.Cause(k.ctx); cause != nil {
				err = cause
			}
			f.Err = withOutputs(f.Err, k.runner.Secrets.Error(err))
		}
	case k.resumed && k.a.SyncEvery > 0 && k.copies == nil:
		k.recall()
	}
	k.list(o)
}

// recall lists what an earlier program has brought of an attempt of which nothing can come any more.
func (k *Keeper) recall() {
	dir, err := k.runner.outputDir(k.a)
	if err != nil {
		return
	}
	if c := transfer.NewCopies(dir); c.Recall() == nil {
		k.copies = c
	}
}

// list puts the copies into the outcome.
func (k *Keeper) list(o *Outcome) {
	if k.copies == nil {
		return
	}
	if o.Outputs = k.copies.Files(); o.Outputs != nil {
		o.OutputDir, _ = k.runner.outputDir(k.a)
	}
}

// withOutputs adds to the error of an attempt, which may be nil, why its files have not come.
func withOutputs(err, outputs error) error {
	outputs = fmt.Errorf("its outputs could not be brought: %w", outputs)
	if err == nil {
		return outputs
	}
	return fmt.Errorf("%w; %w", err, outputs)
}

// collect brings the files of an attempt that succeeded. It is a failure if they do not come, or if a pattern matches
// none. Files that came are in the outcome even so.
func (k *Keeper) collect(o *Outcome) *Failure {
	ctx, cancel := k.ctx, func() {}
	if k.a.DropIfCancelled {
		ctx, cancel = k.untilCancelled()
	}
	defer cancel()
	var err error
	if k.a.SyncEvery > 0 {
		if err = k.bring(ctx); err == nil {
			if none := transfer.Unmatched(patternsOf(k.a.Outputs).needed, k.copies.Files()); len(none) > 0 {
				err = unmatched(ctx, k.node.Files(), none, k.folders())
			}
		}
	} else {
		err = k.runner.fetch(ctx, k.node.Files(), k.a, o, k.folders())
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil, k.node.IsOver() && k.a.Context.Err() != nil:
		return k.a.cancelled()
	case k.node.IsOver():
		return Failed(NodeLost, k.node.Err())
	}
	return Failed(Outputs, k.runner.Secrets.Error(err))
}

// Keeping counts attempts whose output files are still to come. The zero value counts none.
type Keeping struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is zero again; nil if no one waits
}

func (k *Keeping) add() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
}

func (k *Keeping) done() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n--; k.n == 0 && k.none != nil {
		close(k.none)
		k.none = nil
	}
}

// Wait waits until the files of all attempts have come, or cannot come, but not longer than patience.
func (k *Keeping) Wait(patience time.Duration) {
	k.mu.Lock()
	if k.n == 0 {
		k.mu.Unlock()
		return
	}
	if k.none == nil {
		k.none = make(chan struct{})
	}
	none := k.none
	k.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
	}
}
