package report

import (
	"archive/zip"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/credential"
	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/internal/runjson"
)

// WriteBundle writes a zip with what explains a failed run:
//
//   - CAUSE.txt says in a few lines what ended badly first, why, and what to look at next.
//   - tasks/ has, for each failed task, task.json, the last lines of its stdout and stderr, and the stack of what failed.
//   - nodes/ has, for each node that failed or had a failed task, what its phases printed and, while pool can reach it, its
//     devices, kernel log, disks, memory, processes (without their arguments), versions, and what gputrain keeps there of tasks.
//   - spec.json, versions.txt and ledger.json describe the pools, this program, and what the ledgers of this computer know.
//   - report.html, run.json and events.jsonl have everything that r has recorded, the last as observe.Read takes it.
//   - MISSING.txt names what was left out, and why.
//
// A nil pool collects nothing from nodes. Credentials are removed a second time, as in a report: see WriteHTML. The bundle has at most 64 MiB and takes at most a minute. What does not fit is in MISSING.txt, and is no
// error. If ctx ends, there is no bundle, and the error is its cause.
func WriteBundle(ctx context.Context, path string, r *observe.Recorder, pool *gputrain.Compute) error {
	if r == nil {
		return &gputrain.Error{Op: "write " + path, Kind: gputrain.ErrInvalid, Err: fmt.Errorf("the recorder is nil"), Hint: "give it the observe.Recorder whose Option the pool was opened with"}
	}
	if err := invalid.NoContext("write "+path, ctx); err != nil {
		return err
	}
	b := &bundle{recorder: r, limits: bundleLimits, environ: os.Environ(), ledgers: gputrain.Pools}
	if pool != nil {
		b.pool = pool
	}
	return b.write(ctx, path)
}

// A bundle is what a bundle is made from.
type bundle struct {
	recorder interface {
		Run() observe.Run
		Events(ctx context.Context, after int64) iter.Seq[observe.Entry]
	}
	pool    shells // nil for none
	limits  limits
	environ []string
	ledgers func() ([]gputrain.PoolRecord, error)

	run observe.Run
}

// shells runs shells on the nodes of a pool. It is a *gputrain.Compute.
type shells interface {
	ID() string
	Shell(ctx context.Context, rank int, stdin io.Reader, stdout, stderr io.Writer) error
}

func (b *bundle) write(ctx context.Context, path string) error {
	ended := func() error {
		if err := context.Cause(ctx); err != nil {
			return &gputrain.Error{Op: "write " + path, Err: err, Hint: "give WriteBundle a context that has not ended: a bundle is often written after the end of the pool's"}
		}
		return nil
	}
	if err := ended(); err != nil {
		return err
	}
	began := time.Now()
	// The end of the time is for what is after the files: the zip's directory, and the rename.
	work, cancel := context.WithDeadlineCause(ctx, began.Add(b.limits.time-b.limits.time/12), errLate)
	defer cancel()
	b.run = b.settled(work)
	return writeFile(path, func(w io.Writer) error {
		out := &counter{to: w}
		a := &archive{ctx: work, out: out, zip: zip.NewWriter(out), limits: b.limits, known: credential.Known(b.environ), now: began}
		if err := b.fill(work, a); err != nil {
			return cmp.Or(ended(), err)
		}
		if err := a.close(); err != nil {
			return err
		}
		return ended()
	})
}

// A pool delivers its events a little after the call that failed has returned. settled waits for them: until none has come for
// settleTime, and not longer than longestSettle, since a pool that goes on has always more.
const (
	settleTime    = 300 * time.Millisecond
	longestSettle = 2 * time.Second
)

// settled returns the Run with what has happened before.
func (b *bundle) settled(ctx context.Context) observe.Run {
	run := b.recorder.Run()
	for end := time.Now().Add(longestSettle); ; {
		select {
		case <-ctx.Done():
			return run
		case <-time.After(settleTime):
		}
		next := b.recorder.Run()
		if next.Seq == run.Seq || time.Now().After(end) {
			return next
		}
		run = next
	}
}

// fill adds the files, those first that explain most in the least space.
func (b *bundle) fill(ctx context.Context, a *archive) error {
	nodes := b.concernedNodes()
	var collected []collection
	var collecting sync.WaitGroup
	defer collecting.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before waiting
	if b.pool == nil {
		a.miss("nodes: commands", "no pool was given, so no node was asked")
	} else {
		collecting.Go(func() { collected = b.collect(ctx, nodes) })
	}
	for _, add := range []func(*archive) error{
		b.addCause, b.addTasks,
		func(a *archive) error { return b.addNodes(a, nodes) },
		b.addSpecs, addVersions, b.addLedgers, b.addReport,
		func(a *archive) error { return b.addRun(a) },
		func(a *archive) error { collecting.Wait(); return addCollected(a, collected) },
		b.addEvents,
	} {
		if err := add(a); err != nil {
			return err
		}
	}
	return nil
}

func (b *bundle) addCause(a *archive) error {
	if c, ok := findCause(b.run); ok {
		return a.text("CAUSE.txt", strings.Join(c.text(true), "\n"))
	}
	return a.text("CAUSE.txt", strings.Join(withoutFailure(b.run), "\n"))
}

func (b *bundle) addReport(a *archive) error {
	return a.file("report.html", a.limits.bytes/4, func(w io.Writer) error { return writeHTML(w, newDocument(b.run)) })
}

// A run.json with more than mostRunText bytes of output has only the last lines of tasks that have not failed.
const (
	mostRunText  = 16 << 20
	keptRunLines = 5
)

func (b *bundle) addRun(a *archive) error {
	size := 0
	for _, t := range b.run.Tasks {
		for _, l := range t.Lines {
			size += len(l.Text)
		}
	}
	lines := allLines
	if size > mostRunText {
		lines = keptRunLines
		a.miss("run.json: lines of tasks that did not fail", fmt.Sprintf("there are too many; each has its last %d", lines))
	}
	return a.file("run.json", a.limits.bytes/2, func(w io.Writer) error { return writeRun(w, b.run, lines) })
}

// addEvents adds what the recorder has recorded until the Run was taken.
func (b *bundle) addEvents(a *archive) error {
	return a.file("events.jsonl", a.limits.bytes, func(w io.Writer) error {
		if b.run.Seq == 0 {
			return nil
		}
		ctx, cancel := context.WithCancelCause(a.ctx)
		defer cancel(nil)
		errQuiet := fmt.Errorf("the recorder has returned nothing for %v", b.limits.quiet)
		quiet := time.AfterFunc(b.limits.quiet, func() { cancel(errQuiet) })
		defer quiet.Stop()
		last := int64(0)
		for entry := range b.recorder.Events(ctx, 0) {
			quiet.Reset(b.limits.quiet)
			if entry.Seq > b.run.Seq {
				break
			}
			if entry.Seq != last+1 {
				a.miss(fmt.Sprintf("events.jsonl: %d entries after number %d", entry.Seq-last-1, last), "the recorder keeps them no longer; with observe.Config.File it keeps all")
			}
			last = entry.Seq
			if err := writeEntry(w, entry); err != nil {
				return err
			}
			if last >= b.run.Seq {
				break
			}
		}
		if last < b.run.Seq {
			if err := context.Cause(ctx); err != nil {
				return fmt.Errorf("cut after number %d of %d: %w", last, b.run.Seq, err)
			}
			return fmt.Errorf("the recorder has ended after number %d of %d", last, b.run.Seq)
		}
		return nil
	})
}

// writeEntry writes an entry as one line of JSON, as a recorder's file has it.
func writeEntry(w io.Writer, entry observe.Entry) error {
	text, err := json.Marshal(entry)
	if err != nil {
		text, err = json.Marshal(map[string]any{"seq": entry.Seq, "error": "not written: " + err.Error()})
	}
	if err == nil && strings.ContainsFunc(string(text), func(r rune) bool { return r >= 0x7f }) {
		text, err = runjson.Printable(text)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
