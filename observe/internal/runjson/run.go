// Package runjson maps an [observe.Run] to JSON, for package status and package report alike.
//
// Names stay, and names may be added. Times are in RFC 3339 and UTC, and left out if they are zero; durations are in seconds; a
// number that is not known is null. Texts have no control characters, and those that are not messages or output have one line.
// Values of secrets are nowhere in it.
package runjson

import (
	"encoding/json"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// Version is the "version" of a Run. It changes if a name goes or gets another meaning.
const Version = 1

// A Run is an [observe.Run].
type Run struct {
	Head
	Pools     []Pool     `json:"pools"`
	Nodes     []Node     `json:"nodes"`
	Tasks     []Task     `json:"tasks"`
	Groups    []Group    `json:"groups"`
	Phases    []Phase    `json:"phases"`
	Transfers []Transfer `json:"transfers"`
	Failures  []Failure  `json:"failures"`
	Offers    []Offer    `json:"offers"`
}

// A List is the name of a list of a Run.
type List string

// The lists of a Run.
const (
	Pools     List = "pools"
	Nodes     List = "nodes"
	Tasks     List = "tasks"
	Groups    List = "groups"
	Phases    List = "phases"
	Transfers List = "transfers"
	Failures  List = "failures"
	Offers    List = "offers"
)

// A Head is what a Run has beside its lists.
type Head struct {
	Version   int    `json:"version"`
	Began     string `json:"began,omitempty"`
	At        string `json:"at,omitempty"`
	Seq       int64  `json:"seq"`
	Counts    Counts `json:"counts"`
	SpentUSD  Number `json:"spentUSD"`
	HourlyUSD Number `json:"hourlyUSD"`
	BudgetUSD Number `json:"budgetUSD"`
	AtMostUSD Number `json:"atMostUSD"` // null unless bounded
	Bounded   bool   `json:"bounded"`
	Omitted   int    `json:"omitted"`
}

// Counts are an [observe.Counts].
type Counts struct {
	Ready     int `json:"ready"`
	Starting  int `json:"starting"`
	Broken    int `json:"broken"`
	Gone      int `json:"gone"`
	Slots     int `json:"slots"`
	Busy      int `json:"busy"`
	Waiting   int `json:"waiting"`
	Running   int `json:"running"`
	Done      int `json:"done"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
	Retries   int `json:"retries"`
}

// Of returns all of a Run.
func Of(r observe.Run) Run {
	return Run{
		Head: HeadOf(r), Pools: each(r.Pools, PoolOf), Nodes: each(r.Nodes, NodeOf),
		Tasks:  each(r.Tasks, func(t observe.Task) Task { return TaskOf(t, r.At) }),
		Groups: each(r.Groups, GroupOf), Phases: each(r.Phases, PhaseOf), Transfers: each(r.Transfers, TransferOf), Failures: each(r.Failures, FailureOf),
		Offers: each(r.Offers, OfferOf),
	}
}

// HeadOf returns a Run without its lists.
func HeadOf(r observe.Run) Head {
	return Head{
		Version: Version, Began: Time(r.Began), At: Time(r.At), Seq: r.Seq, Counts: Counts(r.Counts), SpentUSD: Number(r.SpentUSD),
		HourlyUSD: Number(r.HourlyUSD), BudgetUSD: Number(r.BudgetUSD), AtMostUSD: known(r.AtMostUSD, r.Bounded), Bounded: r.Bounded, Omitted: r.Omitted,
	}
}

// A Pool is an [observe.Pool].
type Pool struct {
	ID          string          `json:"id"`
	State       string          `json:"state"`
	Accelerator string          `json:"accelerator,omitempty"` // of Spec, in short
	Spec        json.RawMessage `json:"spec,omitempty"`        // see SpecOf
	SpecError   string          `json:"specError,omitempty"`   // why Spec is missing
	Opened      string          `json:"opened,omitempty"`
	ReadyAt     string          `json:"readyAt,omitempty"`
	Closed      string          `json:"closed,omitempty"`
	Cost        Cost            `json:"cost"`
	CostAt      string          `json:"costAt,omitempty"`
	Waiting     string          `json:"waiting,omitempty"`
	Error       string          `json:"error,omitempty"`
}

// PoolOf returns all of a pool.
func PoolOf(p observe.Pool) Pool {
	f := Pool{
		ID: line(p.ID), State: line(p.State), Opened: Time(p.Opened), ReadyAt: Time(p.ReadyAt), Closed: Time(p.Closed), Cost: costOf(p.Cost),
		CostAt: Time(p.CostAt), Waiting: text(p.Waiting), Error: text(p.Err),
	}
	if p.Spec != nil {
		f.Accelerator = acceleratorsOf(*p.Spec)
		spec, err := SpecOf(*p.Spec)
		if err != nil {
			f.SpecError = text(err.Error())
		} else {
			f.Spec = spec
		}
	}
	return f
}

// A Cost is a [gputrain.Cost].
type Cost struct {
	USD          Number            `json:"usd"`
	HourlyUSD    Number            `json:"hourlyUSD"`
	Unknown      int               `json:"unknown"`
	AtMostUSD    Number            `json:"atMostUSD"` // null unless bounded
	OverspendUSD Number            `json:"overspendUSD"`
	Parts        map[string]Number `json:"parts,omitempty"`
	Bounded      bool              `json:"bounded"`
	Nodes        []NodeCost        `json:"nodes,omitempty"`
}

// A NodeCost is what one node has cost.
type NodeCost struct {
	Rank      int    `json:"rank"`
	ID        string `json:"id"`
	Name      string `json:"name"`
	HourlyUSD Number `json:"hourlyUSD"`
	USD       Number `json:"usd"`
	From      string `json:"from,omitempty"`
	To        string `json:"to,omitempty"`
}

func costOf(c gputrain.Cost) Cost {
	f := Cost{
		USD: Number(c.USD), HourlyUSD: Number(c.HourlyUSD), Unknown: c.Unknown, AtMostUSD: known(c.AtMostUSD, c.Bounded), OverspendUSD: Number(c.OverspendUSD),
		Parts: numbers(c.Parts), Bounded: c.Bounded,
	}
	for _, n := range c.Nodes {
		f.Nodes = append(f.Nodes, NodeCost{
			Rank: n.Rank, ID: line(n.ID), Name: line(n.Name), HourlyUSD: price(n.HourlyUSD), USD: Number(n.USD), From: Time(n.From), To: Time(n.To),
		})
	}
	return f
}
