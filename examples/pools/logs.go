package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

var logsCommand = &command{
	name: "logs", args: "POOL JOB", least: 2, most: 2, summary: "follow a task's output, from its start on",
	help: `JOB is the ID or name of a task; of a file of events, any attempt's lines. Its
stdout goes to stdout, its stderr to stderr, without what controls a terminal.
` + takeoverNote,
	flags: func(o *options, flags *flag.FlagSet) {
		attachFlags(o, flags)
		flags.BoolVar(&o.follow, "follow", true, "wait for more; of a file only")
		flags.BoolVar(&o.raw, "raw", false, "every byte as the task has written it; not of a file")
	},
	run: logs,
}

// A lineView is a line of output as JSON.
type lineView struct {
	Time    time.Time `json:"time,omitzero"`
	Job     string    `json:"job"`
	Node    *int      `json:"node,omitempty"`
	Attempt int       `json:"attempt,omitzero"`
	Stderr  bool      `json:"stderr,omitzero"`
	Text    string    `json:"text"`
}

// A printer prints lines of two streams, one line at a time.
type printer struct {
	s  *session
	mu sync.Mutex
	of string // the job and the attempt of the last line
}

func (p *printer) print(l lineView) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.Text = cleanText(l.Text)
	if p.s.json {
		return json.NewEncoder(p.s.out).Encode(l)
	}
	w := p.s.out
	if l.Stderr {
		w = p.s.err
	}
	if of := fmt.Sprint(l.Job, l.Attempt); of != p.of {
		if p.of = of; l.Attempt > 1 {
			fmt.Fprintf(p.s.err, "--- attempt %d of %s\n", l.Attempt, l.Job)
		}
	}
	_, err := fmt.Fprintln(w, l.Text)
	return err
}

func logs(ctx context.Context, s *session) error {
	if s.isFile(s.args[0]) {
		return logsOfFile(ctx, s)
	}
	r, err := s.pool(s.args[0])
	if err != nil {
		return err
	}
	a, err := s.attach(ctx, r)
	if err != nil {
		return err
	}
	job, err := a.job(s.args[1])
	if err == nil {
		err = s.followJob(ctx, job)
	}
	return errors.Join(err, a.leave())
}

// followJob prints a job's output until the job is over or ctx ends.
func (s *session) followJob(ctx context.Context, job *gputrain.Job) error {
	p := &printer{s: s}
	over := make(chan error, 2)
	go func() { over <- s.copy(p, job, job.Stdout(), false) }()
	go func() { over <- s.copy(p, job, job.Stderr(), true) }()
	var errs []error
	for range 2 {
		select {
		case err := <-over:
			errs = append(errs, err)
		case <-ctx.Done():
			return nil // the task goes on
		}
	}
	return errors.Join(errs...)
}

func (s *session) copy(p *printer, job *gputrain.Job, from io.Reader, stderr bool) error {
	if s.raw && !s.json {
		to := s.out
		if stderr {
			to = s.err
		}
		_, err := io.Copy(to, from)
		return err
	}
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		text, err := lines.ReadSlice('\n') // a longer line comes in parts
		if len(text) > 0 {
			end := len(text)
			if text[end-1] == '\n' {
				end--
			}
			if err := p.print(lineView{Job: job.ID(), Stderr: stderr, Text: string(text[:end])}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

const (
	// filePause is the time between two looks at a file of events.
	filePause = 200 * time.Millisecond
	// The last lines of a task may come lastLines after its end.
	lastLines = time.Second
)

// logsOfFile prints a task's lines of a file of events until the task or the pool has ended.
func logsOfFile(ctx context.Context, s *session) error {
	run, err := observe.Read(s.args[0])
	if err != nil {
		return err
	}
	job := s.args[1]
	known := slices.ContainsFunc(run.Tasks, func(t observe.Task) bool { return t.ID == job || t.Name == job })
	if !known && !s.follow {
		return fmt.Errorf("%s has no task %q; \"pools jobs %s\" lists those that it has", s.args[0], job, s.args[0])
	}
	if !known {
		if isOver(run) {
			return fmt.Errorf("%s has no task %q, and its pool has ended; \"pools jobs %s\" lists those that it has", s.args[0], job, s.args[0])
		}
		fmt.Fprintf(s.err, "waiting for a task %q\n", clean(job))
	}
	p := &printer{s: s}
	var ended time.Time // when the end of the task was read
	open := map[string]bool{}
	follow := func() bool { return s.follow && (ended.IsZero() || time.Since(ended) < lastLines) }
	return entries(ctx, s.args[0], follow, func(e observe.Entry) error {
		if l := e.Line; l != nil && l.Task != "" && (l.Task == job || l.Name == job) {
			node := l.Node
			return p.print(lineView{Time: l.Time, Job: clean(l.Task), Node: &node, Attempt: l.Attempt, Stderr: l.Stderr, Text: l.Text})
		}
		switch ev := e.Event; {
		case ev == nil:
		case ev.Kind == gputrain.EventPool && (ev.State == "closed" || ev.State == "detached"):
			ended = time.Now()
		case ev.Kind == gputrain.EventTask && (ev.Task == job || ev.Name == job):
			switch ev.State {
			case "done", "failed", "cancelled":
				delete(open, ev.Task)
			default:
				open[ev.Task] = true
			}
			ended = time.Time{}
			if len(open) == 0 {
				ended = time.Now()
			}
		}
		return nil
	})
}

// isOver reports whether all pools of a Run have ended.
func isOver(run observe.Run) bool {
	return len(run.Pools) > 0 && !slices.ContainsFunc(run.Pools, func(p observe.Pool) bool { return p.Closed.IsZero() })
}

// entries calls each with the entries of a file of events. At the end of the file it waits for more as long as follow returns
// true and ctx has not ended.
func entries(ctx context.Context, path string, follow func() bool, each func(observe.Entry) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	var line []byte // the beginning of one that is not complete
	for ctx.Err() == nil {
		part, err := r.ReadBytes('\n')
		line = append(line, part...)
		if errors.Is(err, io.EOF) {
			if !follow() {
				return nil
			}
			select {
			case <-time.After(filePause):
			case <-ctx.Done():
			}
			continue
		}
		if err != nil {
			return err
		}
		var e observe.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%s is not a file of events: %w", path, err)
		}
		line = line[:0]
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}
