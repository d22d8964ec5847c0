package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/console"
	"github.com/gputrain/gputrain/observe/status"
	"golang.org/x/term"
)

var watchCommand = &command{
	name: "watch", args: "POOL", least: 1, most: 1, summary: "watch a pool until it ends, or until Ctrl-C",
	help: `Of a file of events: what its program records, again and again; that program may
live, and is not touched.
` + takeoverNote + `
Its leases are renewed while it is watched, so that it lives, and costs.`,
	flags: func(o *options, flags *flag.FlagSet) {
		attachFlags(o, flags)
		flags.BoolVar(&o.page, "page", false, "also show a page for the browser; not of a file")
	},
	run: watch,
}

func watch(ctx context.Context, s *session) error {
	if s.isFile(s.args[0]) {
		if s.page {
			return wrongUsage("-page shows what this program records, not a file: the program that writes %s can call status.Serve", s.args[0])
		}
		return watchFile(ctx, s)
	}
	r, err := s.pool(s.args[0])
	if err != nil {
		return err
	}
	a, err := s.attach(ctx, r)
	if err != nil {
		return err
	}
	return errors.Join(a.watch(ctx), a.leave())
}

// watch shows the pool until it ends or ctx does.
func (a *attached) watch(ctx context.Context) (err error) {
	s := a.s
	if s.page {
		page, err := status.Serve(a.rec, "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer page.Close()
		fmt.Fprintln(s.err, "the page is at", page.URL())
	}
	if f, ok := s.err.(*os.File); ok && !s.json {
		view := console.Show(a.rec, f)
		defer func() { err = errors.Join(err, view.Close()) }()
	}
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	last := int64(-1)
	for {
		run := a.rec.Run()
		if s.json && run.Seq != last {
			last = run.Seq
			if err := printJSONLine(s, run); err != nil {
				return err
			}
		}
		if isOver(run) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// watchPause is the time between two looks.
const watchPause = time.Second

// watchFile shows what a file of events has, until its pools have ended or ctx does.
func watchFile(ctx context.Context, s *session) error {
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	last := int64(-1) // the size of the file
	for {
		info, err := os.Stat(s.args[0])
		if err != nil {
			return err
		}
		if size := info.Size(); size != last { // a long file takes a while to read
			last = size
			run, err := observe.Read(s.args[0])
			if err == nil {
				err = printRun(s, run)
			}
			if err != nil || isOver(run) {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// printRun prints what a file of events has: all of it on a terminal, and a line elsewhere.
func printRun(s *session, run observe.Run) error {
	if s.json {
		return printJSONLine(s, run)
	}
	if f, ok := s.out.(*os.File); ok && isTerminal(f) {
		_, rows, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return err
		}
		return printScreen(s, run, rows)
	}
	_, err := fmt.Fprintln(s.out, run.At.Local().Format(time.TimeOnly), summary(run))
	return err
}

// printScreen replaces what a terminal of so many rows shows. Nodes that do not fit are counted.
func printScreen(s *session, run observe.Run, rows int) error {
	const others = 8 // rows: a title, the table's head, empty ones, and a summary that may take several
	more := 0
	if most := max(rows-others, 1); len(run.Nodes) > most {
		run.Nodes, more = run.Nodes[:most], len(run.Nodes)-most
	}
	var text strings.Builder
	on := *s
	app := *s.app
	on.app, app.out = &app, &text
	fmt.Fprintf(&text, "%s, as of %s\n\n", clean(s.args[0]), run.At.Local().Format(time.TimeOnly))
	if err := printNodes(&on, run); err != nil {
		return err
	}
	if more > 0 {
		fmt.Fprintf(&text, "and %s\n", count(more, "more node"))
	}
	fmt.Fprintf(&text, "\n%s\n", summary(run))
	_, err := fmt.Fprint(s.out, "\x1b[H\x1b[2J"+text.String())
	return err
}

// summary is a Run in a line.
func summary(run observe.Run) string {
	c := run.Counts
	parts := []string{}
	for _, p := range run.Pools {
		text := clean(p.ID) + " " + clean(p.State)
		if p.Waiting != "" {
			text += " (waits for " + clean(p.Waiting) + ")"
		}
		parts = append(parts, text)
	}
	parts = append(parts,
		fmt.Sprintf("nodes: %d ready, %d starting, %d broken, %d gone", c.Ready, c.Starting, c.Broken, c.Gone),
		fmt.Sprintf("tasks: %d waiting, %d running, %d done, %d failed, %d cancelled", c.Waiting, c.Running, c.Done, c.Failed, c.Cancelled),
		costLine(run))
	return strings.Join(parts, "; ")
}
