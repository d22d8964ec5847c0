package status

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/observe"
)

// The mapping of observe.Run to JSON. The names are stable. A summary leaves out what changes all the time, and what is large.

// version changes if a name goes or gets another meaning. The names are those of report.WriteJSON, which has all of a Spec.
const version = 1

// A number is null in JSON if it is not finite.
type number float64

// MarshalJSON implements [json.Marshaler].
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// known returns a number, or one that is null in JSON.
func known(v float64, is bool) number {
	if !is {
		return number(math.NaN())
	}
	return number(v)
}

// stamp returns a time in RFC 3339, or "".
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func seconds(d time.Duration) number { return number(d.Seconds()) }

// line and text return what can be shown of a text from a node or a provider, as one line or as several.
func line(s string) string { return printable.Line(s) }
func text(s string) string { return printable.Text(s) }

func mapped[T, U any](all []T, f func(T) U) []U {
	made := make([]U, len(all))
	for i, v := range all {
		made[i] = f(v)
	}
	return made
}

// A headForm has what a Run has beside its lists.
type headForm struct {
	Version   int                  `json:"version"`
	Began     string               `json:"began,omitzero"`
	At        string               `json:"at,omitzero"`
	Seq       int64                `json:"seq"`
	Counts    map[string]int       `json:"counts"`
	SpentUSD  number               `json:"spentUSD"`
	HourlyUSD number               `json:"hourlyUSD"`
	BudgetUSD number               `json:"budgetUSD"`
	AtMostUSD number               `json:"atMostUSD"` // null unless bounded
	Bounded   bool                 `json:"bounded"`
	Omitted   int                  `json:"omitted"`
	Gone      map[section][]string `json:"gone,omitempty"` // in updates
}

func headOf(r observe.Run) headForm {
	c := r.Counts
	return headForm{
		Version: version, Began: stamp(r.Began), At: stamp(r.At), Seq: r.Seq,
		Counts: map[string]int{
			"ready": c.Ready, "starting": c.Starting, "broken": c.Broken, "gone": c.Gone, "slots": c.Slots, "busy": c.Busy,
			"waiting": c.Waiting, "running": c.Running, "done": c.Done, "failed": c.Failed, "cancelled": c.Cancelled, "retries": c.Retries,
		},
		SpentUSD: number(r.SpentUSD), HourlyUSD: number(r.HourlyUSD), BudgetUSD: number(r.BudgetUSD), AtMostUSD: known(r.AtMostUSD, r.Bounded), Bounded: r.Bounded,
		Omitted: r.Omitted,
	}
}

type poolForm struct {
	ID      string    `json:"id"`
	State   string    `json:"state"`
	Spec    *specForm `json:"spec,omitzero"`
	Opened  string    `json:"opened,omitzero"`
	ReadyAt string    `json:"readyAt,omitzero"`
	Closed  string    `json:"closed,omitzero"`
	Cost    costForm  `json:"cost"`
	CostAt  string    `json:"costAt,omitzero"`
	Waiting string    `json:"waiting,omitzero"`
	Err     string    `json:"error,omitzero"`
}

type costForm struct {
	USD          number            `json:"usd"`
	HourlyUSD    number            `json:"hourlyUSD"`
	Unknown      int               `json:"unknown,omitzero"`
	AtMostUSD    number            `json:"atMostUSD"`
	OverspendUSD number            `json:"overspendUSD,omitzero"`
	Bounded      bool              `json:"bounded"`
	Parts        map[string]number `json:"parts,omitempty"`
}

// A specForm has the part of a Spec that says what is rented.
type specForm struct {
	Accelerator  string   `json:"accelerator"`
	AnyOf        []string `json:"anyOf,omitempty"`
	Nodes        int      `json:"nodes"`
	MaxNodes     int      `json:"maxNodes,omitzero"`
	MinReady     int      `json:"minReady,omitzero"`
	Concurrency  int      `json:"concurrency,omitzero"`
	Regions      []string `json:"regions,omitempty"`
	Allocation   string   `json:"allocation"`
	MaxHourlyUSD number   `json:"maxHourlyUSD,omitzero"`
	BudgetUSD    number   `json:"budgetUSD,omitzero"`
	IdleTimeout  number   `json:"idleTimeout,omitzero"`
	TTL          number   `json:"ttl,omitzero"`
}

func poolOf(p observe.Pool) poolForm {
	f := poolForm{
		ID: line(p.ID), State: line(p.State), Opened: stamp(p.Opened), ReadyAt: stamp(p.ReadyAt), Closed: stamp(p.Closed), CostAt: stamp(p.CostAt),
		Waiting: text(p.Waiting), Err: text(p.Err),
		Cost: costForm{
			number(p.Cost.USD), number(p.Cost.HourlyUSD), p.Cost.Unknown, known(p.Cost.AtMostUSD, p.Cost.Bounded), number(p.Cost.OverspendUSD), p.Cost.Bounded, nil,
		},
	}
	for name, usd := range p.Cost.Parts {
		if f.Cost.Parts == nil {
			f.Cost.Parts = map[string]number{}
		}
		f.Cost.Parts[line(name)] = number(usd)
	}
	if s := p.Spec; s != nil {
		f.Spec = &specForm{
			Accelerator: line(s.Accelerator.String()), Nodes: s.Nodes, MaxNodes: s.MaxNodes, MinReady: s.MinReady, Concurrency: s.Concurrency,
			Regions: mapped(s.Regions, line), Allocation: line(s.Allocation.String()), MaxHourlyUSD: number(s.MaxHourlyUSD), BudgetUSD: number(s.BudgetUSD),
			IdleTimeout: seconds(s.IdleTimeout), TTL: seconds(s.TTL),
		}
		for _, a := range s.AnyOf {
			f.Spec.AnyOf = append(f.Spec.AnyOf, line(a.String()))
		}
	}
	return f
}

type nodeForm struct {
	Pool          string            `json:"pool"`
	Key           string            `json:"key"`
	Rank          int               `json:"rank"`
	ID            string            `json:"id,omitzero"`
	Name          string            `json:"name,omitzero"`
	State         string            `json:"state"`
	Since         string            `json:"since,omitzero"`
	Launched      string            `json:"launched,omitzero"`
	ReadyAt       string            `json:"readyAt,omitzero"`
	Gone          string            `json:"gone,omitzero"`
	Provider      string            `json:"provider,omitzero"`
	Region        string            `json:"region,omitzero"`
	InstanceType  string            `json:"instanceType,omitzero"`
	Market        string            `json:"market,omitzero"`
	HourlyUSD     number            `json:"hourlyUSD"`
	Accelerator   string            `json:"accelerator,omitzero"`
	PublicAddr    string            `json:"publicAddr,omitzero"`
	PrivateAddr   string            `json:"privateAddr,omitzero"`
	HostKey       string            `json:"hostKey,omitzero"`
	HostKeySource string            `json:"hostKeySource,omitzero"`
	OS            string            `json:"os,omitzero"`
	Arch          string            `json:"arch,omitzero"`
	VCPUs         int               `json:"vcpus,omitzero"`
	MemoryGiB     number            `json:"memoryGiB,omitzero"`
	Phase         string            `json:"phase,omitzero"`
	Tasks         []string          `json:"tasks,omitempty"`
	Ended         int               `json:"ended,omitzero"`
	BusyTime      number            `json:"busySeconds,omitzero"`
	Accelerators  []acceleratorForm `json:"usage,omitempty"`
	Host          *hostForm         `json:"host,omitzero"`
	UsageAt       string            `json:"usageAt,omitzero"`
	Load          []loadForm        `json:"load,omitempty"`
	SpentUSD      *number           `json:"spentUSD,omitzero"` // null unless the price is known
	LeaseUntil    string            `json:"leaseUntil,omitzero"`
	Preempt       string            `json:"preempt,omitzero"`
	Err           string            `json:"error,omitzero"`
}

type acceleratorForm struct {
	Device         string `json:"device"`
	Utilization    number `json:"utilization"`
	MemoryGiB      number `json:"memoryGiB"`
	MemoryTotalGiB number `json:"memoryTotalGiB"`
	Celsius        number `json:"celsius"`
	Watts          number `json:"watts"`
	ClockMHz       number `json:"clockMHz"`
	Uncorrected    *int64 `json:"uncorrected"`
	Slowed         string `json:"slowed,omitzero"`
}

type hostForm struct {
	CPU            number `json:"cpu"`
	MemoryGiB      number `json:"memoryGiB"`
	MemoryTotalGiB number `json:"memoryTotalGiB"`
	DiskGiB        number `json:"diskGiB"`
	DiskTotalGiB   number `json:"diskTotalGiB"`
}

type loadForm struct {
	At           string `json:"at"`
	Accelerators number `json:"accelerators"`
	CPU          number `json:"cpu"`
}

func nodeOf(n observe.Node, summary bool) nodeForm {
	usd, priced := n.HourlyUSD.USD()
	f := nodeForm{
		Pool: line(n.Pool), Key: line(n.Key), Rank: n.Rank, ID: line(n.ID), Name: line(n.Name), State: line(n.State), Since: stamp(n.Since),
		Launched: stamp(n.Launched), ReadyAt: stamp(n.ReadyAt), Gone: stamp(n.Gone), Provider: line(n.Provider), Region: line(n.Region),
		InstanceType: line(n.InstanceType), Market: line(marketOf(n)), HourlyUSD: known(usd, priced), PublicAddr: line(n.PublicAddr), PrivateAddr: line(n.PrivateAddr),
		HostKey: line(n.HostKey), OS: line(n.OS), Arch: line(n.Arch), VCPUs: n.VCPUs, MemoryGiB: number(n.MemoryGiB), Phase: line(n.Phase),
		Tasks: mapped(n.Tasks, line), Ended: n.Ended, UsageAt: stamp(n.UsageAt), LeaseUntil: stamp(n.LeaseUntil), Preempt: stamp(n.Preempt), Err: text(n.Err),
		Accelerators: mapped(n.Usage, acceleratorOf),
	}
	if !n.Accelerator.IsZero() {
		f.Accelerator = line(n.Accelerator.String())
	}
	if n.HostKey != "" {
		f.HostKeySource = line(n.HostKeySource.String())
	}
	if h := n.Host; h != nil {
		f.Host = &hostForm{number(h.CPU), number(h.MemoryGiB), number(h.MemoryTotalGiB), number(h.DiskGiB), number(h.DiskTotalGiB)}
	}
	if summary {
		return f
	}
	spent := known(n.SpentUSD, n.Known)
	f.SpentUSD, f.BusyTime = &spent, seconds(n.BusyTime)
	f.Load = mapped(n.Load, func(l observe.Load) loadForm {
		return loadForm{stamp(l.At), known(l.Accelerators, l.Accelerators >= 0), known(l.CPU, l.CPU >= 0)}
	})
	return f
}

// marketOf returns "spot", "on-demand" or, if that is not known, "".
func marketOf(n observe.Node) string { return n.Labels()[gputrain.LabelMarket] }

func acceleratorOf(s gputrain.AcceleratorSample) acceleratorForm {
	f := acceleratorForm{
		Device: line(s.Device), Utilization: number(s.Utilization), MemoryGiB: number(s.MemoryGiB), MemoryTotalGiB: number(s.MemoryTotalGiB),
		Celsius: number(s.Celsius), Watts: number(s.Watts), ClockMHz: number(s.ClockMHz), Slowed: line(s.Slowed),
	}
	if s.Uncorrected >= 0 {
		f.Uncorrected = &s.Uncorrected
	}
	return f
}

type taskForm struct {
	Pool      string        `json:"pool"`
	ID        string        `json:"id"`
	Name      string        `json:"name,omitzero"`
	State     string        `json:"state"`
	Node      string        `json:"node,omitzero"`
	Rank      int           `json:"rank"`
	Slot      int           `json:"slot"`
	Attempt   int           `json:"attempt,omitzero"`
	Queued    string        `json:"queued,omitzero"`
	Started   string        `json:"started,omitzero"`
	Ended     string        `json:"ended,omitzero"`
	Elapsed   number        `json:"elapsedSeconds,omitzero"`
	Step      *stepForm     `json:"step,omitzero"`
	StepAt    string        `json:"stepAt,omitzero"`
	PerSecond number        `json:"stepsPerSecond,omitzero"`
	ETA       string        `json:"eta,omitzero"`
	Stalled   bool          `json:"stalled,omitzero"`
	ExitCode  int           `json:"exitCode,omitzero"`
	Cause     string        `json:"cause,omitzero"`
	SpentUSD  number        `json:"spentUSD,omitzero"`
	Err       string        `json:"error,omitzero"`
	Attempts  []attemptForm `json:"attempts,omitempty"`
	Lines     []lineForm    `json:"lines,omitempty"`
}

type stepForm struct {
	N      int64             `json:"n"`
	Of     int64             `json:"of,omitzero"`
	Values map[string]number `json:"values,omitempty"`
}

type attemptForm struct {
	Number   int    `json:"number"`
	Node     string `json:"node,omitzero"`
	Slot     int    `json:"slot"`
	Began    string `json:"began,omitzero"`
	Ended    string `json:"ended,omitzero"`
	ExitCode int    `json:"exitCode,omitzero"`
	Cause    string `json:"cause,omitzero"`
	Err      string `json:"error,omitzero"`
}

type lineForm struct {
	At      string `json:"time,omitzero"`
	Attempt int    `json:"attempt,omitzero"`
	Stderr  bool   `json:"stderr,omitzero"`
	Text    string `json:"text"`
	Omitted int    `json:"omitted,omitzero"`
}

func taskOf(t observe.Task, now time.Time, summary bool) taskForm {
	f := taskForm{
		Pool: line(t.Pool), ID: line(t.ID), Name: line(t.Name), State: line(t.State), Node: line(t.Node), Rank: t.Rank, Slot: t.Slot, Attempt: t.Attempt,
		Queued: stamp(t.Queued), Started: stamp(t.Started), Ended: stamp(t.Ended), Elapsed: seconds(t.Elapsed), ExitCode: t.ExitCode,
		Cause: line(t.Cause), SpentUSD: number(t.SpentUSD), Err: text(t.Err),
	}
	if !t.StepAt.IsZero() {
		f.Step, f.StepAt, f.PerSecond = &stepForm{N: t.Step.N, Of: t.Step.Of}, stamp(t.StepAt), number(t.PerSecond)
		for name, v := range t.Step.Values {
			if f.Step.Values == nil {
				f.Step.Values = map[string]number{}
			}
			f.Step.Values[line(name)] = number(v)
		}
	}
	if summary {
		return f
	}
	f.Stalled = t.IsStalled(now)
	if eta, ok := t.ETA(now); ok {
		f.ETA = stamp(eta)
	}
	f.Attempts = mapped(t.Attempts, func(a observe.Attempt) attemptForm {
		return attemptForm{a.Number, line(a.Node), a.Slot, stamp(a.Began), stamp(a.Ended), a.ExitCode, line(a.Cause), text(a.Err)}
	})
	f.Lines = mapped(t.Lines, lineOf)
	return f
}

func lineOf(l gputrain.Line) lineForm {
	return lineForm{stamp(l.Time), l.Attempt, l.Stderr, line(l.Text), l.Omitted}
}

type groupForm struct {
	Pool      string `json:"pool"`
	Name      string `json:"name"`
	Done      int    `json:"done"`
	Failed    int    `json:"failed"`
	Cancelled int    `json:"cancelled"`
	Attempts  int    `json:"attempts"`
	Time      number `json:"seconds"`
	SpentUSD  number `json:"spentUSD"`
}

func groupOf(g observe.Group) groupForm {
	return groupForm{line(g.Pool), line(g.Name), g.Done, g.Failed, g.Cancelled, g.Attempts, seconds(g.Time), number(g.SpentUSD)}
}

type phaseForm struct {
	Pool     string        `json:"pool"`
	Node     string        `json:"node,omitzero"`
	Rank     int           `json:"rank"`
	Name     string        `json:"name"`
	State    string        `json:"state"`
	Began    string        `json:"began,omitzero"`
	Ended    string        `json:"ended,omitzero"`
	Progress *progressForm `json:"progress,omitzero"`
	Lines    []lineForm    `json:"lines,omitempty"`
	Err      string        `json:"error,omitzero"`
}

type progressForm struct {
	What  string `json:"what,omitzero"`
	Done  int64  `json:"done"`
	Total int64  `json:"total,omitzero"`
	Unit  string `json:"unit,omitzero"`
}

func phaseOf(p observe.Phase, summary bool) phaseForm {
	f := phaseForm{Pool: line(p.Pool), Node: line(p.Node), Rank: p.Rank, Name: line(p.Name), State: line(p.State), Began: stamp(p.Began), Ended: stamp(p.Ended), Err: text(p.Err)}
	if g := p.Progress; g != (gputrain.Progress{}) {
		f.Progress = &progressForm{line(g.What), g.Done, g.Total, line(g.Unit)}
	}
	if !summary {
		f.Lines = mapped(p.Lines, lineOf)
	}
	return f
}

type transferForm struct {
	Pool           string `json:"pool"`
	Node           string `json:"node,omitzero"`
	Rank           int    `json:"rank"`
	Task           string `json:"task,omitzero"`
	Name           string `json:"name,omitzero"`
	What           string `json:"what"`
	State          string `json:"state"`
	Began          string `json:"began,omitzero"`
	At             string `json:"at,omitzero"`
	Bytes          int64  `json:"bytes"`
	Total          int64  `json:"total,omitzero"`
	BytesPerSecond number `json:"bytesPerSecond,omitzero"`
	Err            string `json:"error,omitzero"`
}

func transferOf(t observe.Transfer) transferForm {
	return transferForm{
		line(t.Pool), line(t.Node), t.Rank, line(t.Task), line(t.Name), line(t.What), line(t.State), stamp(t.Began), stamp(t.At), t.Bytes, t.Total,
		number(t.BytesPerSecond), text(t.Err),
	}
}

type failureForm struct {
	Seq     int64  `json:"seq"`
	At      string `json:"at,omitzero"`
	Pool    string `json:"pool,omitzero"`
	Kind    string `json:"kind"`
	Node    string `json:"node,omitzero"`
	Rank    int    `json:"rank"`
	Task    string `json:"task,omitzero"`
	Name    string `json:"name,omitzero"`
	Phase   string `json:"phase,omitzero"`
	Attempt int    `json:"attempt,omitzero"`
	Cause   string `json:"cause,omitzero"`
	Retried bool   `json:"retried,omitzero"`
	Err     string `json:"error,omitzero"`
	Tail    string `json:"tail,omitzero"`
	Stack   string `json:"stack,omitzero"`
}

func failureOf(f observe.Failure, summary bool) failureForm {
	form := failureForm{
		Seq: f.Seq, At: stamp(f.At), Pool: line(f.Pool), Kind: line(f.Kind), Node: line(f.Node), Rank: f.Rank, Task: line(f.Task), Name: line(f.Name),
		Phase: line(f.Phase), Attempt: f.Attempt, Cause: line(f.Cause), Retried: f.Retried, Err: text(f.Err),
	}
	if !summary {
		form.Tail, form.Stack = text(f.Tail), text(f.Stack)
	}
	return form
}

type offerForm struct {
	At           string `json:"at,omitzero"`
	Pool         string `json:"pool,omitzero"`
	Provider     string `json:"provider,omitzero"`
	InstanceType string `json:"instanceType,omitzero"`
	Region       string `json:"region,omitzero"`
	HourlyUSD    number `json:"hourlyUSD"`
	Spot         bool   `json:"spot"`
	State        string `json:"state"`
	Err          string `json:"error,omitzero"`
}

func offerOf(o observe.Offer) offerForm {
	return offerForm{
		stamp(o.At), line(o.Pool), line(o.Provider), line(o.InstanceType), line(o.Region), known(o.HourlyUSD, o.Known), o.Spot, line(o.State), text(o.Err),
	}
}

// keys are by what a part of a Run is known in updates, and to the page.
func poolKey(p observe.Pool) string   { return line(p.ID) }
func nodeKey(n observe.Node) string   { return line(n.Key) }
func taskKey(t observe.Task) string   { return keyOf(t.Pool, t.ID) }
func groupKey(g observe.Group) string { return keyOf(g.Pool, g.Name) }
func phaseKey(p observe.Phase) string { return keyOf(p.Pool, p.Node, p.Name, stamp(p.Began)) }
func transferKey(t observe.Transfer) string {
	return keyOf(t.Pool, t.Node, t.Task, t.What, stamp(t.Began))
}
func failureKey(f observe.Failure) string { return keyOf(fmt.Sprint(f.Seq), f.Kind) }
func offerKey(o observe.Offer) string {
	return keyOf(o.Pool, o.Provider, o.InstanceType, o.Region, stamp(o.At))
}

// keyOf joins parts by what none of them has.
func keyOf(parts ...string) string {
	for i := range parts {
		parts[i] = line(parts[i])
	}
	return strings.Join(parts, "\n")
}
