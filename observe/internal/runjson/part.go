package runjson

import (
	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// A Phase is an [observe.Phase]. Its Lines are not nil.
type Phase struct {
	Pool         string    `json:"pool"`
	Node         string    `json:"node,omitempty"`
	Rank         int       `json:"rank"`
	Name         string    `json:"name"`
	State        string    `json:"state"`
	Began        string    `json:"began,omitempty"`
	Ended        string    `json:"ended,omitempty"`
	UsualSeconds Number    `json:"usualSeconds,omitempty"`
	Progress     *Progress `json:"progress,omitempty"`
	Lines        []Line    `json:"lines,omitzero"`
	Error        string    `json:"error,omitempty"`
}

// PhaseOf returns all of a phase.
func PhaseOf(p observe.Phase) Phase {
	f := Phase{
		Pool: line(p.Pool), Node: line(p.Node), Rank: p.Rank, Name: line(p.Name), State: line(p.State), Began: Time(p.Began), Ended: Time(p.Ended),
		UsualSeconds: Seconds(p.Usual), Lines: each(p.Lines, lineOf), Error: text(p.Err),
	}
	if g := p.Progress; g != (gputrain.Progress{}) {
		f.Progress = &Progress{line(g.What), g.Done, g.Total, line(g.Unit)}
	}
	return f
}

// A Progress is a [gputrain.Progress].
type Progress struct {
	What  string `json:"what"`
	Done  int64  `json:"done"`
	Total int64  `json:"total,omitempty"`
	Unit  string `json:"unit,omitempty"`
}

// A Transfer is an [observe.Transfer].
type Transfer struct {
	Pool           string `json:"pool"`
	Node           string `json:"node,omitempty"`
	Rank           int    `json:"rank"`
	Task           string `json:"task,omitempty"`
	Name           string `json:"name,omitempty"`
	What           string `json:"what"`
	State          string `json:"state"`
	Began          string `json:"began,omitempty"`
	At             string `json:"at,omitempty"`
	Bytes          int64  `json:"bytes"`
	Total          int64  `json:"total,omitempty"`
	BytesPerSecond Number `json:"bytesPerSecond"`
	Error          string `json:"error,omitempty"`
}

// TransferOf returns all of a transfer.
func TransferOf(t observe.Transfer) Transfer {
	return Transfer{
		line(t.Pool), line(t.Node), t.Rank, line(t.Task), line(t.Name), line(t.What), line(t.State), Time(t.Began), Time(t.At), t.Bytes, t.Total,
		Number(t.BytesPerSecond), text(t.Err),
	}
}

// A Failure is an [observe.Failure].
type Failure struct {
	Seq     int64  `json:"seq"`
	At      string `json:"at,omitempty"`
	Pool    string `json:"pool"`
	Kind    string `json:"kind"`
	Node    string `json:"node,omitempty"`
	Rank    int    `json:"rank"`
	Task    string `json:"task,omitempty"`
	Name    string `json:"name,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Cause   string `json:"cause,omitempty"`
	Retried bool   `json:"retried"`
	Error   string `json:"error,omitempty"`
	Tail    string `json:"tail,omitempty"`
	Stack   string `json:"stack,omitempty"`
}

// FailureOf returns all of a failure.
func FailureOf(f observe.Failure) Failure {
	return Failure{
		f.Seq, Time(f.At), line(f.Pool), line(f.Kind), line(f.Node), f.Rank, line(f.Task), line(f.Name), line(f.Phase), f.Attempt, line(f.Cause), f.Retried,
		text(f.Err), text(f.Tail), text(f.Stack),
	}
}

// An Offer is an [observe.Offer].
type Offer struct {
	At           string `json:"at,omitempty"`
	Pool         string `json:"pool,omitempty"`
	Provider     string `json:"provider"`
	InstanceType string `json:"instanceType"`
	Region       string `json:"region"`
	HourlyUSD    Number `json:"hourlyUSD"`
	Spot         bool   `json:"spot"`
	State        string `json:"state,omitempty"`
	Error        string `json:"error,omitempty"`
}

// OfferOf returns all of an offer.
func OfferOf(o observe.Offer) Offer {
	return Offer{
		Time(o.At), line(o.Pool), line(o.Provider), line(o.InstanceType), line(o.Region), known(o.HourlyUSD, o.Known), o.Spot, line(o.State), text(o.Err),
	}
}
