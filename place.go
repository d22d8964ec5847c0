package gputrain

import "github.com/gputrain/gputrain/accelerators"

// A keptPlace is the Node of results, as a journal has it.
type keptPlace struct {
	Number                         int
	Rank                           int
	ID, Name                       string
	State                          int
	Provider, Region, InstanceType string
	USD                            *float64
	Accelerator                    accelerators.Accelerator
	PublicAddr, PrivateAddr        string
	OS, Arch                       string
	VCPUs                          int
	MemoryGiB                      float64
	Labels                         map[string]string
	HostKey                        string
	HostKeySource                  int
}

// A whereKey tells places apart: what else there is of a machine never changes.
type whereKey struct {
	name, publicAddr, privateAddr, os string
	rank                              int
	state                             NodeState
	usd                               Price
}

// place returns the number of a node's keptPlace, which it writes where there is none.
func (j *journal) place(n Node) int {
	key := whereKey{n.Name, n.PublicAddr, n.PrivateAddr, n.OS, n.Rank, n.State, n.HourlyUSD}
	j.mu.Lock()
	defer j.mu.Unlock()
	number, known := j.where[key]
	if known {
		return number
	}
	j.places++
	line, err := newLine(keptWhere, keptPlaceOf(j.places, n))
	if err != nil {
		return 0 // the result counts for more than where it was
	}
	j.where[key] = j.places
	j.base = append(j.base, line)
	j.queue(behindLine{line: line}) // before every line that has the number
	return j.places
}

func keptPlaceOf(number int, n Node) keptPlace {
	return keptPlace{
		Number: number, Rank: n.Rank, ID: n.ID, Name: n.Name, State: int(n.State), Provider: n.Provider, Region: n.Region, InstanceType: n.InstanceType, USD: optional(n.HourlyUSD),
		Accelerator: n.Accelerator, PublicAddr: n.PublicAddr, PrivateAddr: n.PrivateAddr, OS: n.OS, Arch: n.Arch, VCPUs: n.VCPUs, MemoryGiB: n.MemoryGiB, Labels: n.labels,
		HostKey: n.HostKey, HostKeySource: int(n.HostKeySource),
	}
}

func (p keptPlace) node() Node {
	return Node{
		Rank: p.Rank, ID: p.ID, Name: p.Name, State: NodeState(p.State), Provider: p.Provider, Region: p.Region, InstanceType: p.InstanceType, HourlyUSD: priceOf(p.USD),
		Accelerator: p.Accelerator, PublicAddr: p.PublicAddr, PrivateAddr: p.PrivateAddr, OS: p.OS, Arch: p.Arch, VCPUs: p.VCPUs, MemoryGiB: p.MemoryGiB, labels: p.Labels,
		HostKey: p.HostKey, HostKeySource: HostKeySource(p.HostKeySource),
	}
}
