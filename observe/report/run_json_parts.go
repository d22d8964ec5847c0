package report

import (
	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// The nodes and tasks of run.json: see runJSON.

type nodeJSON struct {
	Key          plain           `json:"key"`
	Pool         plain           `json:"pool"`
	Rank         int             `json:"rank"`
	ID           plain           `json:"id"`
	Name         plain           `json:"name"`
	State        plain           `json:"state"`
	Since        moment          `json:"since,omitzero"`
	Gone         moment          `json:"gone,omitzero"`
	Launched     moment          `json:"launched,omitzero"`
	ReadyAt      moment          `json:"readyAt,omitzero"`
	Provider     plain           `json:"provider"`
	Region       plain           `json:"region"`
	InstanceType plain           `json:"instanceType"`
	HourlyUSD    *amount         `json:"hourlyUSD"`
	SpentUSD     amount          `json:"spentUSD"`
	Known        bool            `json:"priceKnown"`
	PublicAddr   plain           `json:"publicAddr,omitempty"`
	PrivateAddr  plain           `json:"privateAddr,omitempty"`
	HostKey      plain           `json:"hostKey,omitempty"`
	Accelerator  plain           `json:"accelerator,omitempty"`
	OS           plain           `json:"os,omitempty"`
	Arch         plain           `json:"arch,omitempty"`
	VCPUs        int             `json:"vcpus,omitempty"`
	MemoryGiB    amount          `json:"memoryGiB,omitempty"`
	Phase        plain           `json:"phase,omitempty"`
	Tasks        []plain         `json:"tasks"`
	Ended        int             `json:"ended"`
	BusySeconds  amount          `json:"busySeconds"`
	Usage        []usageJSON     `json:"usage,omitempty"`
	Host         *hostSampleJSON `json:"host,omitempty"`
	UsageAt      moment          `json:"usageAt,omitzero"`
	Load         []loadJSON      `json:"load,omitempty"`
	LeaseUntil   moment          `json:"leaseUntil,omitzero"`
	Preempt      moment          `json:"preempt,omitzero"`
	Error        plain           `json:"error,omitempty"`
}

func nodeOf(n observe.Node) nodeJSON {
	j := nodeJSON{
		Key: plain(n.Key), Pool: plain(n.Pool), Rank: n.Rank, ID: plain(n.ID), Name: plain(n.Name), State: plain(n.State), Since: moment(n.Since), Gone: moment(n.Gone),
		Launched: moment(n.Launched), ReadyAt: moment(n.ReadyAt), Provider: plain(n.Provider), Region: plain(n.Region), InstanceType: plain(n.InstanceType),
		HourlyUSD: priceOf(n.HourlyUSD), SpentUSD: amount(n.SpentUSD), Known: n.Known, PublicAddr: plain(n.PublicAddr), PrivateAddr: plain(n.PrivateAddr), HostKey: plain(n.HostKey),
		OS: plain(n.OS), Arch: plain(n.Arch), VCPUs: n.VCPUs, MemoryGiB: amount(n.MemoryGiB), Phase: plain(n.Phase),
		Tasks: each(n.Tasks, func(id string) plain { return plain(id) }), Ended: n.Ended, BusySeconds: seconds(n.BusyTime), Usage: usageOf(n.Usage), Host: hostSampleOf(n.Host),
		UsageAt: moment(n.UsageAt), LeaseUntil: moment(n.LeaseUntil), Preempt: moment(n.Preempt), Error: plain(n.Err),
	}
	if !n.Accelerator.IsZero() {
		j.Accelerator = plain(n.Accelerator.String())
	}
	for _, l := range n.Load {
		j.Load = append(j.Load, loadJSON{moment(l.At), loadPercent(l.Accelerators), loadPercent(l.CPU)})
	}
	return j
}

type loadJSON struct {
	At           moment  `json:"at"`
	Accelerators *amount `json:"accelerators"`
	CPU          *amount `json:"cpu"`
}

// loadPercent returns nil for a number that is not known.
func loadPercent(v float64) *amount {
	if !(v >= 0) {
		return nil
	}
	a := amount(v)
	return &a
}

type usageJSON struct {
	Device         plain  `json:"device"`
	Utilization    amount `json:"utilization"`
	MemoryGiB      amount `json:"memoryGiB"`
	MemoryTotalGiB amount `json:"memoryTotalGiB"`
	Celsius        amount `json:"celsius"`
	Watts          amount `json:"watts"`
	ClockMHz       amount `json:"clockMHz"`
	Uncorrected    int64  `json:"uncorrected"`
	Slowed         plain  `json:"slowed,omitempty"`
}

func usageOf(samples []gputrain.AcceleratorSample) []usageJSON {
	return each(samples, func(s gputrain.AcceleratorSample) usageJSON {
		return usageJSON{
			Device: plain(s.Device), Utilization: amount(s.Utilization), MemoryGiB: amount(s.MemoryGiB), MemoryTotalGiB: amount(s.MemoryTotalGiB),
			Celsius: amount(s.Celsius), Watts: amount(s.Watts), ClockMHz: amount(s.ClockMHz), Uncorrected: s.Uncorrected, Slowed: plain(s.Slowed),
		}
	})
}

type hostSampleJSON struct {
	CPU            amount `json:"cpu"`
	MemoryGiB      amount `json:"memoryGiB"`
	MemoryTotalGiB amount `json:"memoryTotalGiB"`
	DiskGiB        amount `json:"diskGiB"`
	DiskTotalGiB   amount `json:"diskTotalGiB"`
}

func hostSampleOf(h *gputrain.HostSample) *hostSampleJSON {
	if h == nil {
		return nil
	}
	return &hostSampleJSON{amount(h.CPU), amount(h.MemoryGiB), amount(h.MemoryTotalGiB), amount(h.DiskGiB), amount(h.DiskTotalGiB)}
}

type taskJSON struct {
	Pool           plain         `json:"pool"`
	ID             plain         `json:"id"`
	Name           plain         `json:"name"`
	State          plain         `json:"state"`
	Node           plain         `json:"node,omitempty"`
	Rank           int           `json:"rank"`
	Slot           int           `json:"slot"`
	Attempt        int           `json:"attempt"`
	Queued         moment        `json:"queued,omitzero"`
	Started        moment        `json:"started,omitzero"`
	Ended          moment        `json:"ended,omitzero"`
	ElapsedSeconds amount        `json:"elapsedSeconds"`
	Step           *stepJSON     `json:"step,omitempty"`
	StepAt         moment        `json:"stepAt,omitzero"`
	PerSecond      amount        `json:"stepsPerSecond,omitempty"`
	ExitCode       int           `json:"exitCode"`
	Cause          plain         `json:"cause,omitempty"`
	SpentUSD       amount        `json:"spentUSD"`
	Error          plain         `json:"error,omitempty"`
	Attempts       []attemptJSON `json:"attempts"`
	Lines          []lineJSON    `json:"lines"`
}

func taskOf(t observe.Task) taskJSON {
	j := taskJSON{
		Pool: plain(t.Pool), ID: plain(t.ID), Name: plain(t.Name), State: plain(t.State), Node: plain(t.Node), Rank: t.Rank, Slot: t.Slot, Attempt: t.Attempt,
		Queued: moment(t.Queued), Started: moment(t.Started), Ended: moment(t.Ended), ElapsedSeconds: seconds(t.Elapsed), StepAt: moment(t.StepAt), PerSecond: amount(t.PerSecond),
		ExitCode: t.ExitCode, Cause: plain(t.Cause), SpentUSD: amount(t.SpentUSD), Error: plain(t.Err), Attempts: each(t.Attempts, attemptOf), Lines: linesJSON(t.Lines),
	}
	if !t.StepAt.IsZero() {
		j.Step = stepOf(t.Step)
	}
	return j
}

type stepJSON struct {
	N      int64            `json:"n"`
	Of     int64            `json:"of,omitempty"`
	Values map[plain]amount `json:"values,omitempty"`
}

func stepOf(s gputrain.Step) *stepJSON { return &stepJSON{s.N, s.Of, amounts(s.Values)} }

type attemptJSON struct {
	Number   int    `json:"number"`
	Node     plain  `json:"node,omitempty"`
	Slot     int    `json:"slot"`
	Began    moment `json:"began,omitzero"`
	Ended    moment `json:"ended,omitzero"`
	ExitCode int    `json:"exitCode"`
	Cause    plain  `json:"cause,omitempty"`
	Error    plain  `json:"error,omitempty"`
}

func attemptOf(a observe.Attempt) attemptJSON {
	return attemptJSON{a.Number, plain(a.Node), a.Slot, moment(a.Began), moment(a.Ended), a.ExitCode, plain(a.Cause), plain(a.Err)}
}

type phaseJSON struct {
	Pool     plain         `json:"pool"`
	Node     plain         `json:"node,omitempty"`
	Rank     int           `json:"rank"`
	Name     plain         `json:"name"`
	State    plain         `json:"state"`
	Began    moment        `json:"began,omitzero"`
	Ended    moment        `json:"ended,omitzero"`
	Progress *progressJSON `json:"progress,omitempty"`
	Lines    []lineJSON    `json:"lines"`
	Error    plain         `json:"error,omitempty"`
}

func phaseOf(p observe.Phase) phaseJSON {
	return phaseJSON{
		Pool: plain(p.Pool), Node: plain(p.Node), Rank: p.Rank, Name: plain(p.Name), State: plain(p.State), Began: moment(p.Began), Ended: moment(p.Ended),
		Progress: progressOf(p.Progress), Lines: linesJSON(p.Lines), Error: plain(p.Err),
	}
}

type progressJSON struct {
	What  plain `json:"what"`
	Done  int64 `json:"done"`
	Total int64 `json:"total,omitempty"`
	Unit  plain `json:"unit,omitempty"`
}

func progressOf(p gputrain.Progress) *progressJSON {
	if p == (gputrain.Progress{}) {
		return nil
	}
	return &progressJSON{plain(p.What), p.Done, p.Total, plain(p.Unit)}
}

type transferJSON struct {
	Pool           plain  `json:"pool"`
	Node           plain  `json:"node,omitempty"`
	Rank           int    `json:"rank"`
	Task           plain  `json:"task,omitempty"`
	Name           plain  `json:"name,omitempty"`
	What           plain  `json:"what"`
	State          plain  `json:"state"`
	Began          moment `json:"began,omitzero"`
	At             moment `json:"at,omitzero"`
	Bytes          int64  `json:"bytes"`
	Total          int64  `json:"total,omitempty"`
	BytesPerSecond amount `json:"bytesPerSecond"`
	Error          plain  `json:"error,omitempty"`
}

func transferOf(t observe.Transfer) transferJSON {
	return transferJSON{
		Pool: plain(t.Pool), Node: plain(t.Node), Rank: t.Rank, Task: plain(t.Task), Name: plain(t.Name), What: plain(t.What), State: plain(t.State),
		Began: moment(t.Began), At: moment(t.At), Bytes: t.Bytes, Total: t.Total, BytesPerSecond: amount(t.BytesPerSecond), Error: plain(t.Err),
	}
}
