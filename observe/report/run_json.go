package report

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/observe"
)

// runVersion is the "version" of run.json. It changes if a name goes or gets another meaning.
const runVersion = 1

// allLines has writeRun write all lines that a Run has.
const allLines = math.MaxInt

// writeRun writes a Run as JSON, with the last so many lines of each phase and each task that has not failed.
func writeRun(w io.Writer, run observe.Run, lines int) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(runOf(run, lines))
}

// plain is a text without control characters.
type plain string

func (p plain) MarshalText() ([]byte, error) { return []byte(printable.Text(string(p))), nil }

// amount is a number that is null if it is not known.
type amount float64

func (a amount) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(a)) || math.IsInf(float64(a), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(a))
}

// moment is a time in RFC 3339 and UTC.
type moment time.Time

func (m moment) IsZero() bool { return time.Time(m).IsZero() }

func (m moment) MarshalText() ([]byte, error) {
	return []byte(time.Time(m).UTC().Format(time.RFC3339Nano)), nil
}

func seconds(d time.Duration) amount { return amount(d.Seconds()) }

type runJSON struct {
	Version   int            `json:"version"`
	Began     moment         `json:"began,omitzero"`
	At        moment         `json:"at,omitzero"`
	Seq       int64          `json:"seq"`
	Pools     []poolJSON     `json:"pools"`
	Nodes     []nodeJSON     `json:"nodes"`
	Tasks     []taskJSON     `json:"tasks"`
	Groups    []groupJSON    `json:"groups"`
	Phases    []phaseJSON    `json:"phases"`
	Transfers []transferJSON `json:"transfers"`
	Counts    countsJSON     `json:"counts"`
	SpentUSD  amount         `json:"spentUSD"`
	HourlyUSD amount         `json:"hourlyUSD"`
	BudgetUSD amount         `json:"budgetUSD"`
	AtMostUSD amount         `json:"atMostUSD"`
	Bounded   bool           `json:"bounded"`
	Failures  []failureJSON  `json:"failures"`
	Offers    []offerJSON    `json:"offers"`
	Omitted   int            `json:"omitted"`
}

func runOf(r observe.Run, lines int) runJSON {
	return runJSON{
		Version: runVersion, Began: moment(r.Began), At: moment(r.At), Seq: r.Seq,
		Pools: each(r.Pools, poolOf), Nodes: each(r.Nodes, nodeOf),
		Tasks: each(r.Tasks, func(t observe.Task) taskJSON {
			if t.State != "failed" {
				t.Lines = lastOf(t.Lines, lines)
			}
			return taskOf(t)
		}),
		Groups: each(r.Groups, groupOf),
		Phases: each(r.Phases, func(p observe.Phase) phaseJSON {
			if p.State != "failed" {
				p.Lines = lastOf(p.Lines, lines)
			}
			return phaseOf(p)
		}),
		Transfers: each(r.Transfers, transferOf), Counts: countsJSON(r.Counts),
		SpentUSD: amount(r.SpentUSD), HourlyUSD: amount(r.HourlyUSD), BudgetUSD: amount(r.BudgetUSD), AtMostUSD: amount(r.AtMostUSD), Bounded: r.Bounded,
		Failures: each(r.Failures, failureOf), Offers: each(r.Offers, offerOf), Omitted: r.Omitted,
	}
}

// each maps a slice. A nil slice becomes an empty array.
func each[T, U any](all []T, f func(T) U) []U {
	mapped := make([]U, 0, len(all))
	for _, v := range all {
		mapped = append(mapped, f(v))
	}
	return mapped
}

func lastOf[T any](all []T, most int) []T { return all[max(len(all)-most, 0):] }

// countsJSON has the fields of observe.Counts.
type countsJSON struct {
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

type poolJSON struct {
	ID       plain           `json:"id"`
	State    plain           `json:"state"`
	Spec     json.RawMessage `json:"spec,omitempty"` // by the names of gputrain.Spec
	Opened   moment          `json:"opened,omitzero"`
	ReadyAt  moment          `json:"readyAt,omitzero"`
	Closed   moment          `json:"closed,omitzero"`
	Cost     costJSON        `json:"cost"`
	CostAt   moment          `json:"costAt,omitzero"`
	Waiting  plain           `json:"waiting,omitempty"`
	Error    plain           `json:"error,omitempty"`
	SpecFail plain           `json:"specError,omitempty"` // why Spec is missing
}

func poolOf(p observe.Pool) poolJSON {
	j := poolJSON{
		ID: plain(p.ID), State: plain(p.State), Opened: moment(p.Opened), ReadyAt: moment(p.ReadyAt), Closed: moment(p.Closed),
		Cost: costOf(p.Cost), CostAt: moment(p.CostAt), Waiting: plain(p.Waiting), Error: plain(p.Err),
	}
	if p.Spec != nil {
		spec, err := specJSON(*p.Spec)
		if j.Spec = spec; err != nil {
			j.Spec, j.SpecFail = nil, plain(err.Error())
		}
	}
	return j
}

type costJSON struct {
	USD          amount           `json:"usd"`
	HourlyUSD    amount           `json:"hourlyUSD"`
	Unknown      int              `json:"unknown"`
	AtMostUSD    amount           `json:"atMostUSD"`
	OverspendUSD amount           `json:"overspendUSD"`
	Parts        map[plain]amount `json:"parts,omitempty"`
	Bounded      bool             `json:"bounded"`
	Nodes        []nodeCostJSON   `json:"nodes,omitempty"`
}

type nodeCostJSON struct {
	Rank      int     `json:"rank"`
	ID        plain   `json:"id"`
	Name      plain   `json:"name"`
	HourlyUSD *amount `json:"hourlyUSD"`
	USD       amount  `json:"usd"`
	From      moment  `json:"from,omitzero"`
	To        moment  `json:"to,omitzero"`
}

func costOf(c gputrain.Cost) costJSON {
	j := costJSON{
		USD: amount(c.USD), HourlyUSD: amount(c.HourlyUSD), Unknown: c.Unknown, AtMostUSD: amount(c.AtMostUSD), OverspendUSD: amount(c.OverspendUSD),
		Parts: amounts(c.Parts), Bounded: c.Bounded,
	}
	for _, n := range c.Nodes {
		j.Nodes = append(j.Nodes, nodeCostJSON{Rank: n.Rank, ID: plain(n.ID), Name: plain(n.Name), HourlyUSD: priceOf(n.HourlyUSD), USD: amount(n.USD), From: moment(n.From), To: moment(n.To)})
	}
	return j
}

func amounts(values map[string]float64) map[plain]amount {
	if len(values) == 0 {
		return nil
	}
	all := make(map[plain]amount, len(values))
	for name, v := range values {
		all[plain(name)] = amount(v)
	}
	return all
}

// priceOf returns nil for a price that is not known.
func priceOf(p gputrain.Price) *amount {
	v, known := p.USD()
	if !known {
		return nil
	}
	a := amount(v)
	return &a
}

type failureJSON struct {
	Seq     int64  `json:"seq"`
	At      moment `json:"at,omitzero"`
	Pool    plain  `json:"pool"`
	Kind    plain  `json:"kind"`
	Node    plain  `json:"node,omitempty"`
	Rank    int    `json:"rank"`
	Task    plain  `json:"task,omitempty"`
	Name    plain  `json:"name,omitempty"`
	Phase   plain  `json:"phase,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Cause   plain  `json:"cause,omitempty"`
	Retried bool   `json:"retried"`
	Error   plain  `json:"error,omitempty"`
	Tail    plain  `json:"tail,omitempty"`
	Stack   plain  `json:"stack,omitempty"`
}

func failureOf(f observe.Failure) failureJSON {
	return failureJSON{
		Seq: f.Seq, At: moment(f.At), Pool: plain(f.Pool), Kind: plain(f.Kind), Node: plain(f.Node), Rank: f.Rank, Task: plain(f.Task), Name: plain(f.Name),
		Phase: plain(f.Phase), Attempt: f.Attempt, Cause: plain(f.Cause), Retried: f.Retried, Error: plain(f.Err), Tail: plain(f.Tail), Stack: plain(f.Stack),
	}
}

type groupJSON struct {
	Pool      plain  `json:"pool"`
	Name      plain  `json:"name"`
	Done      int    `json:"done"`
	Failed    int    `json:"failed"`
	Cancelled int    `json:"cancelled"`
	Attempts  int    `json:"attempts"`
	Seconds   amount `json:"seconds"`
	SpentUSD  amount `json:"spentUSD"`
}

func groupOf(g observe.Group) groupJSON {
	return groupJSON{plain(g.Pool), plain(g.Name), g.Done, g.Failed, g.Cancelled, g.Attempts, seconds(g.Time), amount(g.SpentUSD)}
}

type offerJSON struct {
	At           moment  `json:"at,omitzero"`
	Pool         plain   `json:"pool,omitempty"`
	Provider     plain   `json:"provider"`
	InstanceType plain   `json:"instanceType"`
	Region       plain   `json:"region"`
	HourlyUSD    *amount `json:"hourlyUSD"`
	Spot         bool    `json:"spot"`
	State        plain   `json:"state,omitempty"`
	Error        plain   `json:"error,omitempty"`
}

func offerOf(o observe.Offer) offerJSON {
	j := offerJSON{
		At: moment(o.At), Pool: plain(o.Pool), Provider: plain(o.Provider), InstanceType: plain(o.InstanceType), Region: plain(o.Region),
		Spot: o.Spot, State: plain(o.State), Error: plain(o.Err),
	}
	if v := amount(o.HourlyUSD); o.Known {
		j.HourlyUSD = &v
	}
	return j
}

type lineJSON struct {
	Time    moment `json:"time,omitzero"`
	Stderr  bool   `json:"stderr,omitempty"`
	Text    plain  `json:"text"`
	Omitted int    `json:"omitted,omitempty"`
}

// linesJSON returns lines without what they share with the phase or task that has them.
func linesJSON(lines []gputrain.Line) []lineJSON {
	return each(lines, func(l gputrain.Line) lineJSON {
		return lineJSON{Time: moment(l.Time), Stderr: l.Stderr, Text: plain(l.Text), Omitted: l.Omitted}
	})
}

// specJSON returns a spec by the names of its fields, with the names of its secrets and without their values.
func specJSON(s gputrain.Spec) (json.RawMessage, error) {
	names := make([]string, 0, len(s.Secrets))
	for name := range s.Secrets {
		names = append(names, name)
	}
	slices.Sort(names)
	text, err := json.Marshal(struct {
		gputrain.Spec
		SecretNames []string `json:",omitempty"`
	}{s, names})
	if err != nil {
		return nil, err
	}
	return plainJSON(text)
}

// plainJSON removes control characters from the texts of a JSON value.
func plainJSON(text []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(plainValue(v))
	return bytes.TrimRight(out.Bytes(), "\n"), err
}

func plainValue(v any) any {
	switch v := v.(type) {
	case string:
		return printable.Text(v)
	case []any:
		for i := range v {
			v[i] = plainValue(v[i])
		}
	case map[string]any:
		for _, name := range slices.Collect(maps.Keys(v)) {
			value := v[name]
			delete(v, name)
			v[printable.Text(name)] = plainValue(value)
		}
	}
	return v
}
