package runjson

import (
	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// A Node is an [observe.Node].
type Node struct {
	Key           string         `json:"key"`
	Pool          string         `json:"pool"`
	Rank          int            `json:"rank"`
	ID            string         `json:"id"`
	Name          string         `json:"name"`
	State         string         `json:"state"`
	Since         string         `json:"since,omitempty"`
	Gone          string         `json:"gone,omitempty"`
	Launched      string         `json:"launched,omitempty"`
	ReadyAt       string         `json:"readyAt,omitempty"`
	Provider      string         `json:"provider"`
	Region        string         `json:"region"`
	InstanceType  string         `json:"instanceType"`
	Market        string         `json:"market,omitempty"` // "spot", "on-demand"
	HourlyUSD     Number         `json:"hourlyUSD"`
	SpentUSD      *Number        `json:"spentUSD,omitempty"` // set by NodeOf; null unless PriceKnown
	PriceKnown    bool           `json:"priceKnown"`
	PublicAddr    string         `json:"publicAddr,omitempty"`
	PrivateAddr   string         `json:"privateAddr,omitempty"`
	Ports         map[int]string `json:"ports,omitempty"`
	HostKey       string         `json:"hostKey,omitempty"`
	HostKeySource string         `json:"hostKeySource,omitempty"`
	Accelerator   string         `json:"accelerator,omitempty"`
	OS            string         `json:"os,omitempty"`
	Arch          string         `json:"arch,omitempty"`
	VCPUs         int            `json:"vcpus,omitempty"`
	MemoryGiB     Number         `json:"memoryGiB,omitempty"`
	Phase         string         `json:"phase,omitempty"`
	Tasks         []string       `json:"tasks"`
	Ended         int            `json:"ended"`
	BusySeconds   *Number        `json:"busySeconds,omitempty"` // set by NodeOf
	Usage         []Accelerator  `json:"usage,omitempty"`
	Host          *Host          `json:"host,omitempty"`
	UsageAt       string         `json:"usageAt,omitempty"`
	Load          []Load         `json:"load,omitempty"`
	LeaseUntil    string         `json:"leaseUntil,omitempty"`
	Preempt       string         `json:"preempt,omitempty"`
	Error         string         `json:"error,omitempty"`
}

// NodeOf returns all of a node.
func NodeOf(n observe.Node) Node {
	spent, busy := known(n.SpentUSD, n.Known), Seconds(n.BusyTime)
	f := Node{
		Key: line(n.Key), Pool: line(n.Pool), Rank: n.Rank, ID: line(n.ID), Name: line(n.Name), State: line(n.State), Since: Time(n.Since), Gone: Time(n.Gone),
		Launched: Time(n.Launched), ReadyAt: Time(n.ReadyAt), Provider: line(n.Provider), Region: line(n.Region), InstanceType: line(n.InstanceType),
		Market: line(n.Labels()[gputrain.LabelMarket]), HourlyUSD: price(n.HourlyUSD), SpentUSD: &spent, PriceKnown: n.Known, PublicAddr: line(n.PublicAddr),
		PrivateAddr: line(n.PrivateAddr), HostKey: line(n.HostKey), OS: line(n.OS), Arch: line(n.Arch), VCPUs: n.VCPUs, MemoryGiB: Number(n.MemoryGiB),
		Phase: line(n.Phase), Tasks: each(n.Tasks, line), Ended: n.Ended, BusySeconds: &busy, Usage: each(n.Usage, acceleratorOf), Host: hostOf(n.Host),
		UsageAt: Time(n.UsageAt), Load: each(n.Load, loadOf), LeaseUntil: Time(n.LeaseUntil), Preempt: Time(n.Preempt), Error: text(n.Err),
	}
	if !n.Accelerator.IsZero() {
		f.Accelerator = line(n.Accelerator.String())
	}
	if n.HostKey != "" {
		f.HostKeySource = line(n.HostKeySource.String())
	}
	for port, addr := range n.Ports {
		if f.Ports == nil {
			f.Ports = map[int]string{}
		}
		f.Ports[port] = line(addr)
	}
	return f
}

// An Accelerator is a [gputrain.AcceleratorSample].
type Accelerator struct {
	Device         string `json:"device"`
	Utilization    Number `json:"utilization"`
	MemoryGiB      Number `json:"memoryGiB"`
	MemoryTotalGiB Number `json:"memoryTotalGiB"`
	Celsius        Number `json:"celsius"`
	Watts          Number `json:"watts"`
	ClockMHz       Number `json:"clockMHz"`
	Uncorrected    *int64 `json:"uncorrected"` // null if it is not known
	Slowed         string `json:"slowed,omitempty"`
}

func acceleratorOf(s gputrain.AcceleratorSample) Accelerator {
	f := Accelerator{
		Device: line(s.Device), Utilization: Number(s.Utilization), MemoryGiB: Number(s.MemoryGiB), MemoryTotalGiB: Number(s.MemoryTotalGiB),
		Celsius: Number(s.Celsius), Watts: Number(s.Watts), ClockMHz: Number(s.ClockMHz), Slowed: line(s.Slowed),
	}
	if s.Uncorrected >= 0 {
		f.Uncorrected = &s.Uncorrected
	}
	return f
}

// A Host is a [gputrain.HostSample].
type Host struct {
	CPU            Number `json:"cpu"`
	MemoryGiB      Number `json:"memoryGiB"`
	MemoryTotalGiB Number `json:"memoryTotalGiB"`
	DiskGiB        Number `json:"diskGiB"`
	DiskTotalGiB   Number `json:"diskTotalGiB"`
}

func hostOf(h *gputrain.HostSample) *Host {
	if h == nil {
		return nil
	}
	return &Host{Number(h.CPU), Number(h.MemoryGiB), Number(h.MemoryTotalGiB), Number(h.DiskGiB), Number(h.DiskTotalGiB)}
}

// A Load is an [observe.Load].
type Load struct {
	At           string `json:"at,omitempty"`
	Accelerators Number `json:"accelerators"`
	CPU          Number `json:"cpu"`
}

func loadOf(l observe.Load) Load {
	return Load{Time(l.At), known(l.Accelerators, l.Accelerators >= 0), known(l.CPU, l.CPU >= 0)}
}
