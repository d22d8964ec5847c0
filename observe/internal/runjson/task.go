package runjson

import (
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// A Task is an [observe.Task]. It has no list that is nil.
type Task struct {
	Pool           string    `json:"pool"`
	ID             string    `json:"id"`
	Name           string    `json:"name"`
	State          string    `json:"state"`
	Node           string    `json:"node,omitempty"`
	Rank           int       `json:"rank"`
	Slot           int       `json:"slot"`
	Attempt        int       `json:"attempt"`
	Queued         string    `json:"queued,omitempty"`
	Started        string    `json:"started,omitempty"`
	Ended          string    `json:"ended,omitempty"`
	ElapsedSeconds Number    `json:"elapsedSeconds"`
	Step           *Step     `json:"step,omitempty"`
	StepAt         string    `json:"stepAt,omitempty"`
	StepsPerSecond Number    `json:"stepsPerSecond,omitempty"`
	ETA            string    `json:"eta,omitempty"`
	Stalled        bool      `json:"stalled,omitempty"`
	ExitCode       int       `json:"exitCode"`
	Cause          string    `json:"cause,omitempty"`
	SpentUSD       Number    `json:"spentUSD"`
	Error          string    `json:"error,omitempty"`
	Attempts       []Attempt `json:"attempts,omitzero"`
	Lines          []Line    `json:"lines,omitzero"`
}

// TaskOf returns all of a task. Its ETA, and whether it is stalled, are as of now, which is [observe.Run.At].
func TaskOf(t observe.Task, now time.Time) Task {
	f := Task{
		Pool: line(t.Pool), ID: line(t.ID), Name: line(t.Name), State: line(t.State), Node: line(t.Node), Rank: t.Rank, Slot: t.Slot, Attempt: t.Attempt,
		Queued: Time(t.Queued), Started: Time(t.Started), Ended: Time(t.Ended), ElapsedSeconds: Seconds(t.Elapsed), StepAt: Time(t.StepAt),
		StepsPerSecond: Number(t.PerSecond), Stalled: t.IsStalled(now), ExitCode: t.ExitCode, Cause: line(t.Cause), SpentUSD: Number(t.SpentUSD), Error: text(t.Err),
		Attempts: each(t.Attempts, attemptOf), Lines: each(t.Lines, lineOf),
	}
	if !t.StepAt.IsZero() {
		f.Step = &Step{t.Step.N, t.Step.Of, numbers(t.Step.Values)}
	}
	if eta, ok := t.ETA(now); ok {
		f.ETA = Time(eta)
	}
	return f
}

// A Step is a [gputrain.Step].
type Step struct {
	N      int64             `json:"n"`
	Of     int64             `json:"of,omitempty"`
	Values map[string]Number `json:"values,omitempty"`
}

// An Attempt is an [observe.Attempt].
type Attempt struct {
	Number   int      `json:"number"`
	Node     string   `json:"node,omitempty"`
	Nodes    []string `json:"nodes,omitempty"`
	Slot     int      `json:"slot"`
	Began    string   `json:"began,omitempty"`
	Ended    string   `json:"ended,omitempty"`
	ExitCode int      `json:"exitCode"`
	Cause    string   `json:"cause,omitempty"`
	Error    string   `json:"error,omitempty"`
}

func attemptOf(a observe.Attempt) Attempt {
	return Attempt{a.Number, line(a.Node), each(a.Nodes, line), a.Slot, Time(a.Began), Time(a.Ended), a.ExitCode, line(a.Cause), text(a.Err)}
}

// A Line is a [gputrain.Line] without what all lines of its task or phase have alike.
type Line struct {
	Time    string `json:"time,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Stderr  bool   `json:"stderr,omitempty"`
	Text    string `json:"text"`
	Omitted int    `json:"omitted,omitempty"`
}

func lineOf(l gputrain.Line) Line {
	return Line{Time(l.Time), l.Attempt, l.Stderr, line(l.Text), l.Omitted}
}

// A Group is an [observe.Group].
type Group struct {
	Pool      string `json:"pool"`
	Name      string `json:"name"`
	Done      int    `json:"done"`
	Failed    int    `json:"failed"`
	Cancelled int    `json:"cancelled"`
	Attempts  int    `json:"attempts"`
	Seconds   Number `json:"seconds"`
	SpentUSD  Number `json:"spentUSD"`
}

// GroupOf returns all of a group.
func GroupOf(g observe.Group) Group {
	return Group{line(g.Pool), line(g.Name), g.Done, g.Failed, g.Cancelled, g.Attempts, Seconds(g.Time), Number(g.SpentUSD)}
}
