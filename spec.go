package gputrain

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Spec describes a pool. Its zero value is one node of the provider's smallest offer. Amounts are
// per node.
type Spec struct {
	// Accelerator is what each node must have. The zero value asks for none. A rented machine has
	// exactly Accelerator.Count devices; accelerators.AtLeast and CountBetween allow more. A host
	// of the user's own may always have more.
	Accelerator accelerators.Accelerator
	// AnyOf are accelerators of which each node must have one, instead of Accelerator. The nodes of a pool may have
	// different ones: Node.Accelerator says which.
	AnyOf []accelerators.Accelerator `json:",omitzero"`
	// Speed is the work that one device does in an hour, by the names of accelerators:
	// {"H100": 2.4, "A100-80GB": 1.1, "A100": 1}, in any unit. Offers are then compared by the price of
	// a unit of work instead of an hour's. Accelerators without a speed come last.
	Speed map[string]float64 `json:",omitzero"`
	// Nodes is the number of nodes. Zero means 1, or none if MaxNodes is set: the first task then
	// starts the first node.
	Nodes int
	// MaxNodes makes the pool elastic: it has at least Nodes nodes and, while tasks wait, up to
	// MaxNodes. Zero means Nodes.
	MaxNodes int
	// A node of an elastic pool that has had no task for IdleTimeout is ended, if there are more
	// than Nodes. Zero means five minutes.
	//
	// Any pool whose nodes have done nothing for IdleTimeout ends, with [ErrIdle], if it is set and MaxNodes is not: no task ran or,
	// if the accelerators of its nodes can be sampled, none of them worked. An [EventUsage] of state "idle" comes after half of
	// the time. Zero means that such a pool does not end. The time also begins anew with a task that starts on an idle pool, and
	// while files are copied, or tasks wait for a node. A shell or a connection counts as a task.
	IdleTimeout time.Duration
	// Open returns once MinReady nodes are ready; the others join as they come up. Zero means all
	// of Nodes.
	MinReady int
	// MaxReplacements bounds how often in a row a rank's machine is replaced because it was lost or
	// did not come up. A node that has been ready for ten minutes resets the count. If no place has
	// room for a lost node's replacement, the pool asks again, at least every two minutes, for half
	// an hour, which does not count. Then it gives up the rank, with [ErrNoCapacity], [ErrNoOffers]
	// or [ErrQuota]. A host of the user's own that never became ready is not tried again for ten
	// minutes: another one takes its place, if there is one. Zero means 3, and -1 no replacements.
	MaxReplacements int
	// After MaxOffers offers in a row have refused a machine, a rank that has had none fails, with
	// [ErrNoCapacity] and the like. The count covers all tries for that rank. The best offers are
	// tried first: one after another until three have refused, then up to eight at once if several
	// nodes are wanted, each for a different node, so that no more machines are bought than wanted.
	// A pool begins at most ten launches per second, and one at a time with a BudgetUSD. A rank
	// that had a machine may be refused as often each time that it asks again. Zero means 100, and
	// -1 no bound.
	MaxOffers int
	// Concurrency is the number of tasks that run on a node at once: its slots. Zero means 1. Tasks with
	// Task.Accelerators take devices instead of slots, and are not counted.
	Concurrency int
	// GPUSharing is how many tasks share one device, by NVIDIA's Multi-Process Service (MPS). Each device then counts as
	// so many, in Task.Accelerators too: a share is that part of its threads (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE). Memory is
	// not divided, and an error of one task can end the others on its device. A task with several shares has them on one
	// device if one has as many free, and names each of its devices once in CUDA_VISIBLE_DEVICES. The functions of a node
	// are one process, and share nothing by MPS but with commands.
	//
	// A node starts nvidia-cuda-mps-control before it takes tasks, as the user that tasks run as, with its files in the
	// pool's own folder. MPS servers of others are not touched, and nothing is left after the pool. A node that lacks the program, or
	// whose devices are not NVIDIA's, or divided (MIG), fails with ErrNoOffers. MPS serves 48 tasks of a device at most.
	// Zero and 1 mean that no device is shared.
	GPUSharing int `json:",omitzero"`

	// Each node has at least VCPUs, MemoryGiB and DiskGiB. Zero means any amount. A container gets
	// exactly these vCPUs and this memory.
	VCPUs     float64
	MemoryGiB float64
	DiskGiB   float64
	// Each node has at most MaxVCPUs, MaxMemoryGiB and MaxDiskGiB. Zero means no limit. An amount
	// that the provider does not tell is not limited. MaxDiskGiB has no effect if the provider
	// makes the disk as large as DiskGiB asks for.
	MaxVCPUs     float64 `json:",omitzero"`
	MaxMemoryGiB float64 `json:",omitzero"`
	MaxDiskGiB   float64 `json:",omitzero"`
	// InstanceTypes are the kinds of machine that nodes may be, by the provider's names
	// (Offer.InstanceType): "p4d.24xlarge", "gpu_1x_a100". Case does not matter. None means any. For
	// a machine with accelerators set Accelerator too: some clouds otherwise offer none of them.
	InstanceTypes []string `json:",omitzero"`
	// Arch is the processors' architecture in Go's words: "amd64", "arm64". Empty means any. A
	// GH200, for example, is arm64.
	Arch string
	// Regions are where nodes may be: regions or zones in the provider's words, or countries by their
	// ISO codes. A region includes its zones, so "us-central1" allows "us-central1-a". None means
	// anywhere.
	Regions []string
	// Countries are the countries in which nodes may be, by their ISO 3166-1 codes ("US", "DE"), at
	// every provider alike. An offer whose country is unknown is rejected. None means anywhere.
	Countries []string `json:",omitzero"`
	// Tags are the user's own tags, which each machine gets at a provider that has tags: for bills by
	// team or project. A provider may refuse characters; one without tags leaves them out, and Plan
	// warns of that. Names that begin with "gputrain" are reserved.
	Tags map[string]string `json:",omitzero"`

	// Network says how the nodes must reach each other. A pool that is to hold a [Training] on several nodes needs
	// NetworkPrivate, unless its provider connects all nodes anyway.
	Network Network `json:",omitzero"`

	// RequireKnownHostKey rejects offers of machines whose host keys are known only from the first
	// contact ([HostKeyFirstContact]): an attacker between this program and such a machine at that
	// moment could take its place.
	RequireKnownHostKey bool

	// AuthorizedKeys are public keys, each a line as in a file whose name ends in .pub, that may log in
	// to the nodes beside the pool's own key: "ssh-ed25519 AAAA... me@laptop". The pool puts them into
	// ~/.ssh/authorized_keys of the user that it logs in as, once it has reached a node, and removes
	// them from machines that go on without it. A server that looks for keys elsewhere ignores them. A
	// line with options is [ErrInvalid], and so is a private key. None means the pool's key alone.
	AuthorizedKeys []string `json:",omitzero"`

	// Image is what a node needs before it runs tasks.
	Image Image
	// Secrets are set in the environment of every command, of every function's process, and of
	// every phase of the Image and OnPreemption, and are nowhere else: in no argument, file, log,
	// event or error. [Open] looks up references among them once, before anything is rented: see
	// [Secret]. Task.Secrets override them. A name that is also in an Env is [ErrInvalid]. The
	// pool's journal has only their names, so Attach needs [WithSecrets].
	Secrets map[string]Secret `json:"-"`
	// Mounts attach storage that outlives the pool, if the provider has it.
	Mounts []Mount

	// Allocation says how nodes are rented, spot or on demand.
	Allocation Allocation
	// MaxHourlyUSD is the highest price of one node for an hour, checked against the price that is
	// really charged. Zero means no limit.
	MaxHourlyUSD float64
	// MinHourlyUSD is the lowest price of one node for an hour. Zero means no limit.
	MinHourlyUSD float64 `json:",omitzero"`
	// BudgetUSD is the most that the pool may cost in total. All tasks end with ErrBudget when the
	// rest of it pays for two more minutes of the nodes, so that results can be downloaded. When it
	// is spent, the pool ends. Zero means no limit.
	BudgetUSD float64
	// IngressGiB and EgressGiB are the amounts that a node will receive from the internet, and send
	// there, in an hour. Their price counts only when offers are compared, and in no limit, because
	// a task's real traffic is not known.
	IngressGiB, EgressGiB float64
	// AllowUnknownPrice rents machines whose price is not known even if a limit is set. The limits
	// then hold for the others only.
	AllowUnknownPrice bool

	// WaitForCapacity is how long nodes wait if there is no room for them, no quota, or no offer
	// within the limits: when the pool opens, when it grows, and when a node is replaced. The provider
	// is asked again after five seconds, and less and less often, up to every two minutes; an [EventWait]
	// of state "capacity" says for what. If Nodes is 0, Open needs no room, and the first task waits.
	// Zero means that Open, or that task, fails at once.
	WaitForCapacity time.Duration `json:",omitzero"`
	// ProvisionTimeout bounds the time from a machine's launch until its SSH server answers; after
	// that it is ended and another one rented. Zero means the provider's, which is ten minutes for
	// most: Capabilities.ProvisionTimeout.
	ProvisionTimeout time.Duration `json:",omitzero"`

	// OnPreemption is shell text that a node runs in its working directory once its
	// provider has said that it will take the machine back: to save what should not
	// be lost. It finds the seconds that are left in GPUTRAIN_SECONDS, and is ended
	// when they are over. Tasks go on meanwhile; new ones go to other nodes. Another
	// machine is launched once this one is gone.
	OnPreemption string

	// A node that has not heard from this program for Lease ends its tasks and, if it can, itself; else it keeps what has
	// ended for a program that comes back. The pool renews the lease all the time, so that it never ends a long job. Zero
	// means 15 minutes; the least is five seconds.
	Lease time.Duration
	// A node ends after TTL, whatever happens. Zero means no limit.
	TTL time.Duration
}

const (
	// defaultReplacements is the default of MaxReplacements.
	defaultReplacements = 3
	// defaultIdleTimeout is longer than the time between two steps of most programs, and
	// costs less than another start.
	defaultIdleTimeout = 5 * time.Minute
	// The tasks of a pool end collectTime before its budget is spent, so that results can
	// be downloaded.
	collectTime = 2 * time.Minute

	// defaultLease is longer than most breaks of a connection, a router's
	// restart and a slow Attach, and bounds what a forgotten machine costs.
	defaultLease = 15 * time.Minute
	// minLease is the shortest lease that renewal over a slow link can keep.
	minLease = 5 * time.Second

	// mostSharing is how many clients MPS serves on a device since Volta: man 1 nvidia-cuda-mps-control,
	// https://man.archlinux.org/man/nvidia-cuda-mps-control.1.en
	mostSharing = 48
)

// A Network says how the nodes of a pool must reach each other.
type Network int

const (
	// NetworkAny asks for nothing: nodes may be unable to reach each other, or reach each other by the internet, where a
	// [Training] on several is refused without AllowPublicNetwork.
	NetworkAny Network = iota
	// NetworkPrivate rejects offers whose nodes could not reach all ports of each other by private addresses. All nodes
	// of the pool are then of one provider and one network, which the first node decides on as long as it lives. At Vast.ai
	// they share an overlay network, and at RunPod its global networking. Hosts of the user's own are taken as they
	// are. A pool of one node needs no network: one that [Compute.Resize] is to make larger sets Spec.MaxNodes.
	NetworkPrivate
)

// String returns "any" or "private".
func (n Network) String() string { return nameOf(n, "any", "private") }

// Query returns the part of the spec that a driver is asked with: see package driver.
func (s Spec) Query() driver.Query {
	return driver.Query{
		Accelerator: s.Accelerator, Nodes: s.maxNodes(), VCPUs: s.VCPUs, MemoryGiB: s.MemoryGiB, DiskGiB: s.DiskGiB,
		MaxVCPUs: s.MaxVCPUs, MaxMemoryGiB: s.MaxMemoryGiB, MaxDiskGiB: s.MaxDiskGiB, InstanceTypes: s.InstanceTypes, Arch: s.Arch, Regions: s.Regions, Countries: s.Countries,
		Allocation: s.Allocation, PrivateNetwork: s.Network == NetworkPrivate, MaxHourlyUSD: s.MaxHourlyUSD, MinHourlyUSD: s.MinHourlyUSD, AllowUnknownPrice: s.AllowUnknownPrice, Image: s.Image.Docker, TTL: s.TTL, Mounts: s.Mounts, IngressGiB: s.IngressGiB, EgressGiB: s.EgressGiB,
		Baked: bootstrap.BakeKey(bootstrap.Image(s.Image)),
	}
}

// wants returns what the market looks for.
func (s Spec) wants() market.Wants {
	return market.Wants{Query: s.Query(), AnyOf: s.AnyOf, Speed: s.Speed, RequireKnownHostKey: s.RequireKnownHostKey, ImageLogin: s.Image.DockerUser != "", BudgetUSD: s.BudgetUSD, Tags: len(s.Tags) > 0}
}

// Validate reports everything that is wrong with the spec, in one error that
// is [ErrInvalid]. Open calls it before anything is contacted.
func (s Spec) Validate() error {
	var f invalid.Faults
	f.Count("Nodes", s.Nodes)
	f.Count("MinReady", s.MinReady)
	f.Count("Concurrency", s.Concurrency)
	s.validateSharing(&f)
	f.Count("MaxNodes", s.MaxNodes)
	f.Duration("IdleTimeout", s.IdleTimeout)
	if s.MaxNodes > 0 && s.MaxNodes < s.Nodes {
		f.Add("MaxNodes is %d, fewer than the %d of Nodes", s.MaxNodes, s.Nodes)
	}
	if s.MaxReplacements < -1 {
		f.Add("MaxReplacements is %d; -1 is for none", s.MaxReplacements)
	}
	if s.MaxOffers < -1 {
		f.Add("MaxOffers is %d; -1 is for no bound", s.MaxOffers)
	}
	f.Text("OnPreemption", s.OnPreemption)
	if s.MinReady > s.nodes() {
		f.Add("MinReady is %d, more than the %d of Nodes", s.MinReady, s.nodes())
	}
	if goName := map[string]string{"x86_64": "amd64", "x64": "amd64", "aarch64": "arm64"}[strings.ToLower(s.Arch)]; goName != "" {
		f.Add("Arch is %q; in Go's words that is %q", s.Arch, goName)
	}
	f.Text("Arch", s.Arch)
	f.Names("Regions", s.Regions)
	f.Names("InstanceTypes", s.InstanceTypes)
	f.Bounds("VCPUs", s.VCPUs, s.MaxVCPUs)
	f.Bounds("MemoryGiB", s.MemoryGiB, s.MaxMemoryGiB)
	f.Bounds("DiskGiB", s.DiskGiB, s.MaxDiskGiB)
	f.Amount("MaxHourlyUSD", s.MaxHourlyUSD)
	f.Amount("MinHourlyUSD", s.MinHourlyUSD)
	if s.MaxHourlyUSD > 0 && s.MinHourlyUSD > s.MaxHourlyUSD {
		f.Add("MinHourlyUSD is %v, more than the %v of MaxHourlyUSD", s.MinHourlyUSD, s.MaxHourlyUSD)
	}
	f.Amount("BudgetUSD", s.BudgetUSD)
	f.Amount("IngressGiB", s.IngressGiB)
	f.Amount("EgressGiB", s.EgressGiB)
	if err := s.Accelerator.Validate(); err != nil {
		f.Add("Accelerator: %v", err)
	}
	s.validateChoice(&f)
	f.Duration("WaitForCapacity", s.WaitForCapacity)
	f.Duration("ProvisionTimeout", s.ProvisionTimeout)
	if s.Allocation < OnDemand || s.Allocation > CheapestAllocation {
		f.Add("Allocation is %v; use OnDemand, SpotIfAvailable, Spot or CheapestAllocation", s.Allocation)
	}
	if s.Network < NetworkAny || s.Network > NetworkPrivate {
		f.Add("Network is %v; use NetworkAny or NetworkPrivate", s.Network)
	}
	f.Duration("Lease", s.Lease)
	f.Duration("TTL", s.TTL)
	if s.Lease > 0 && s.Lease < minLease {
		f.Add("Lease is %v; the least that can be kept is %v", s.Lease, minLease)
	}
	if s.TTL > 0 && s.TTL < minLease {
		f.Add("TTL is %v; the least is %v", s.TTL, minLease)
	}
	for i, m := range s.Mounts {
		validateMount(m, &f, fmt.Sprintf("Mounts[%d]", i))
	}
	for i, key := range s.AuthorizedKeys {
		if _, err := ssh.AuthorizedKey(key); err != nil {
			f.Add("AuthorizedKeys[%d]: %v", i, err)
		}
	}
	s.Image.validate(&f)
	s.validateSecrets(&f)
	return f.Err("spec")
}

// validateSecrets checks the pool's secrets.
func (s Spec) validateSecrets(f *invalid.Faults) {
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		f.EnvName("Secrets", name)
		if invalid.IsEnvName(name) && !supervisor.Passable(name) {
			f.Add("Secrets has the name %q, which shells use themselves", name)
		}
		f.Secret(fmt.Sprintf("Secrets[%q]", name), s.Secrets[name])
		if _, twice := s.Image.Env[name]; twice {
			f.Add("%s is in both Image.Env and Secrets", name)
		}
	}
}

// validateSharing checks GPUSharing.
func (s Spec) validateSharing(f *invalid.Faults) {
	f.Count("GPUSharing", s.GPUSharing)
	switch {
	case s.GPUSharing > mostSharing:
		f.Add("GPUSharing is %d; MPS serves %d tasks of a device at most", s.GPUSharing, mostSharing)
	case s.GPUSharing > 1 && !s.asksForAccelerators():
		f.Add("GPUSharing is %d, and there is no accelerator to share; set Accelerator", s.GPUSharing)
	case s.GPUSharing > 1:
		for _, a := range s.choices() {
			if model, known := accelerators.Lookup(a.Name); known && model.Vendor != "NVIDIA" || a.Vendor != "" && !strings.EqualFold(a.Vendor, "NVIDIA") {
				f.Add("GPUSharing is %d, and %v is not NVIDIA's, whose MPS shares devices", s.GPUSharing, a)
			}
		}
	}
}

// choices returns the accelerators of which each node has one.
func (s Spec) choices() []accelerators.Accelerator {
	if len(s.AnyOf) > 0 {
		return s.AnyOf
	}
	return []accelerators.Accelerator{s.Accelerator}
}

// asksForAccelerators reports whether each node has an accelerator.
func (s Spec) asksForAccelerators() bool { return len(s.AnyOf) > 0 || !s.Accelerator.IsZero() }

// units returns how many units for tasks a node has at least, and at most: its devices, or their shares, or its slots if
// the spec asks for no devices. Machines that exist already may have more devices than were asked for.
func (s Spec) units(adopts bool) fleet.Units {
	if !s.asksForAccelerators() {
		n := min(s.concurrency(), scheduler.MostUnits)
		return fleet.Units{Expected: n, Most: n, Slots: true}
	}
	least, most := 0, 0
	for _, a := range s.choices() {
		if a.IsZero() {
			continue
		}
		n := math.Max(math.Ceil(a.Count), 1)
		if least == 0 || int(n) < least {
			least = int(n)
		}
		if a.MaxCount > 0 {
			n = math.Max(n, a.MaxCount)
		}
		if a.MaxCount == accelerators.Unlimited || adopts {
			n = scheduler.MostUnits
		}
		most = max(most, int(math.Min(n, scheduler.MostUnits)))
	}
	share := func(n int) int { return min(n*max(s.GPUSharing, 1), scheduler.MostUnits) }
	return fleet.Units{Expected: share(least), Most: share(most)}
}

// validateChoice checks what chooses between accelerators and places, and the tags.
func (s Spec) validateChoice(f *invalid.Faults) {
	if len(s.AnyOf) > 0 && !s.Accelerator.IsZero() {
		f.Add("Accelerator and AnyOf are set; make Accelerator one of AnyOf")
	}
	for i, a := range s.AnyOf {
		if err := a.Validate(); err != nil {
			f.Add("AnyOf[%d]: %v", i, err)
		} else if a.IsZero() {
			f.Add("AnyOf[%d] asks for no accelerator", i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Speed)) {
		a, err := accelerators.Parse(name)
		if err == nil && a.IsZero() {
			err = errors.New("it names no accelerator")
		}
		if err != nil {
			f.Add("Speed[%q]: %v", name, err)
		}
		if v := s.Speed[name]; !(v > 0) || math.IsInf(v, 0) {
			f.Add("Speed[%q] is %v; it must be a number above 0", name, v)
		}
	}
	for i, c := range s.Countries {
		if !countryForm.MatchString(c) {
			f.Add("Countries[%d] is %q; use the two letters of ISO 3166-1, as in US", i, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Tags)) {
		if name == "" || strings.HasPrefix(strings.ToLower(name), "gputrain") {
			f.Add("Tags has the name %q; it may not be empty or begin with gputrain", name)
		}
		f.Text("Tags", name+s.Tags[name])
	}
}

var countryForm = regexp.MustCompile(`^[A-Za-z]{2}$`)

func validateMount(m Mount, f *invalid.Faults, where string) {
	switch {
	case !path.IsAbs(m.Target):
		f.Add("%s.Target %q is not an absolute path", where, m.Target)
	case path.Clean(m.Target) == "/":
		f.Add("%s.Target is the node's root", where)
	}
	if m.Source == "" {
		f.Add("%s.Source is empty", where)
	}
	f.Text(where+".Source", m.Source)
	f.Text(where+".Target", m.Target)
	if strings.ContainsAny(m.Source+m.Target, ",\n") {
		f.Add("%s has a comma or a newline, which no engine takes", where)
	}
}

// nodes returns the minimum number of nodes.
func (s Spec) nodes() int {
	if s.MaxNodes > 0 {
		return s.Nodes
	}
	return max(s.Nodes, 1)
}

// maxNodes returns the maximum number of nodes.
func (s Spec) maxNodes() int { return max(s.MaxNodes, s.nodes()) }

func (s Spec) concurrency() int { return max(s.Concurrency, 1) }

func (s Spec) idleTimeout() time.Duration {
	if s.IdleTimeout == 0 {
		return defaultIdleTimeout
	}
	return s.IdleTimeout
}

func (s Spec) replacements() int {
	switch s.MaxReplacements {
	case 0:
		return defaultReplacements
	case -1:
		return 0
	}
	return s.MaxReplacements
}

// maxOffers returns Spec.MaxOffers or its default. No bound is a number that is larger than any
// number of offers.
func (s Spec) maxOffers() int {
	switch s.MaxOffers {
	case 0:
		return 100
	case -1:
		return 1 << 30
	}
	return s.MaxOffers
}

func (s Spec) minReady() int {
	if s.MinReady == 0 {
		return s.nodes()
	}
	return s.MinReady
}

func (s Spec) lease() time.Duration {
	if s.Lease == 0 {
		return defaultLease
	}
	return s.Lease
}
