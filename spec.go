package gputrain

import (
	"time"

	"github.com/gputrain/gputrain/accelerators"
)

// A Spec says what a pool is made of. Its zero value is one node of whatever
// the provider's smallest offer is. Amounts are minimums and per node.
type Spec struct {
	// Accelerator is what each node must have. The zero value asks for none.
	Accelerator accelerators.Accelerator
	// Nodes is how many nodes the pool has. Zero means 1, or none where MaxNodes
	// is set: such a pool begins with its first task.
	Nodes int
	// MaxNodes makes the pool elastic: it has at least Nodes nodes and, while tasks
	// wait, up to so many. Zero means Nodes.
	MaxNodes int
	// IdleTimeout is how long a node of an elastic pool is without a task before
	// it is ended, where there are more than Nodes. Zero means [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// MinReady is how many nodes must be ready before Open returns; the others
	// join as they come up. Zero means all of Nodes.
	MinReady int
	// MaxReplacements is how often in a row the node of a rank is replaced by
	// another machine where it is lost, or does not come up. One that was ready for
	// [SettledAfter] counts as come up for good, and finding no place for one does
	// not count, for as long as [CapacityPatience]. Where machines exist already
	// ([Capabilities].Adopts), one that never became ready is not tried again for ten minutes:
	// another one takes its place, if there is one. Zero means [DefaultReplacements], and -1
	// that none is replaced.
	MaxReplacements int
	// MaxOffers is how many offers in a row may refuse a machine, over all that is tried
	// for a rank that has had none, before that fails: by [ErrNoCapacity] and the like.
	// The best are tried first: one after another until three have refused, then up to
	// eight at once where several nodes are wanted, each offer for other nodes, so that
	// never more machines are bought than are wanted. A pool begins ten launches in a
	// second at the most, and one at a time with a BudgetUSD. A rank that had a machine
	// may be refused as many each time that it asks again. Zero means [DefaultMaxOffers],
	// and -1 that there is no bound.
	MaxOffers int
	// Concurrency is how many tasks run on a node at once: its slots. Zero
	// means 1.
	Concurrency int

	// VCPUs, MemoryGiB and DiskGiB are what each node must have at least. Zero
	// asks for nothing. A container gets exactly the vCPUs and memory.
	VCPUs     float64
	MemoryGiB float64
	DiskGiB   float64
	// Arch is the processors' architecture in Go's words: "amd64", "arm64". Empty
	// means any. A GH200, for one, is arm64.
	Arch string
	// Regions are where nodes may be, in the provider's words: a zone of a region
	// counts as that, so "us-central1" allows "us-central1-a". None means anywhere.
	Regions []string

	// RequireKnownHostKey passes over offers of providers whose machines' host keys are
	// known by the first contact alone ([HostKeyFirstContact]): whoever stands between
	// this program and such a machine at that moment could take its place.
	RequireKnownHostKey bool

	// Image is what a node needs before it runs tasks.
	Image Image
	// Mounts attach storage that outlives the pool, where the provider has it.
	Mounts []Mount

	// Allocation says how nodes are rented, spot or on demand.
	Allocation Allocation
	// MaxHourlyUSD is the most that one node may cost for an hour, at the price
	// that is really charged. Zero means no limit.
	MaxHourlyUSD float64
	// BudgetUSD is the most that the pool may cost, all told. Shortly before it is
	// spent, by what the nodes cost in [CollectTime], all tasks end, as ErrBudget;
	// when it is spent, the pool. Zero means no limit.
	BudgetUSD float64
	// IngressGiB and EgressGiB are what a node will receive from the internet, and send
	// there, in an hour. Where that has a price, it counts when offers are compared,
	// and in nothing else: no limit knows what a task really moves.
	IngressGiB, EgressGiB float64
	// AllowUnknownPrice rents also where a limit is set and a price is not known.
	// The limits then hold for the others only.
	AllowUnknownPrice bool

	// OnPreemption is shell text that a node runs in its working directory once its
	// provider has said that it will take the machine back: to save what should not
	// be lost. It finds the seconds that are left in GPUTRAIN_SECONDS, and is ended
	// when they are over. Tasks go on meanwhile; new ones go to other nodes. Another
	// machine is launched once this one is gone.
	OnPreemption string

	// Lease is how long a node goes on without hearing from this program: it
	// then ends its tasks and, where it can, itself. The pool renews it all the
	// time, so that a long job never dies of it. Zero means [DefaultLease]; the
	// least is [MinLease].
	Lease time.Duration
	// TTL is how long a node lives at most, whatever happens. Zero means no
	// limit.
	TTL time.Duration
}

const (
	// DefaultReplacements is how often in a row the node of a rank is replaced.
	DefaultReplacements = 3
	// SettledAfter is how long a node must have been ready for its loss to be a new
	// one, and not one more in a row.
	SettledAfter = 10 * time.Minute
	// CapacityPatience is how long the rank of a lost node waits, where there is no room
	// for another, before it is given up: as [ErrNoCapacity], [ErrNoOffers] or
	// [ErrQuota]. It is asked for again and again, at least every two minutes.
	CapacityPatience = 30 * time.Minute
	// DefaultIdleTimeout outlasts the time between two steps of a program, and
	// costs less than another start.
	DefaultIdleTimeout = 5 * time.Minute
	// CollectTime is what is left of a budget for Download and the like when the
	// pool's tasks end.
	CollectTime = 2 * time.Minute

	// DefaultLease outlasts a laptop's lid closed for a coffee, a router's
	// restart and a slow Attach, and bounds what a forgotten machine costs.
	DefaultLease = 15 * time.Minute
	// MinLease is the shortest lease that renewal over a slow link can keep.
	MinLease = 5 * time.Second
)

// An Allocation says how nodes are rented.
type Allocation int

const (
	// OnDemand rents at the fixed price, and is never preempted.
	OnDemand Allocation = iota
	// SpotIfAvailable rents spot, and on demand where there is none.
	SpotIfAvailable
	// Spot rents spot only.
	Spot
	// CheapestAllocation rents whatever costs least now.
	CheapestAllocation
)

// String returns the allocation in lower case: "spot if available".
func (a Allocation) String() string {
	return nameOf(a, "on demand", "spot if available", "spot", "cheapest")
}

// An Image is what a node needs before it runs tasks. Its parts run in the
// order of its fields, each a named phase, on all nodes at once. What a node
// has done already, by the hash of what was asked, it does not do again.
type Image struct {
	// Apt are system packages, installed with apt, apk or dnf, whichever the
	// node has. The names are the node's distribution's.
	Apt []string
	// Python is the version of Python that a virtual environment for the tasks
	// is made of: "3.12". Empty means the node's python3 where Pip is set, and
	// no environment otherwise. A version that the node lacks needs uv there.
	Python string
	// Pip are Python packages, as pip takes them: "torch==2.4.0". They go into
	// the virtual environment, by uv where the node has it.
	Pip []string
	// PipIndexes are further package indexes, tried beside the usual one. The
	// address may not hold a password: put such a one into Env on the node.
	PipIndexes []string
	// Env is set for every task and every phase.
	Env map[string]string
	// Include are files and folders of this machine, copied into the working
	// directory of every node, only what changed: "./src" arrives as src. A
	// path outside the current directory arrives under its last element.
	Include []string
	// Exclude are patterns, as in .gitignore, of what Include leaves out. A
	// .gitignore inside an included folder counts too.
	Exclude []string
	// FollowOutsideLinks copies what the symbolic links of an included folder lead
	// to, if that is outside of the folder. Otherwise such a link, and an absolute
	// one, is [ErrOutsideLink]. A path of Include itself may be any link.
	FollowOutsideLinks bool
	// Setup are shell commands, run in the working directory, in order.
	Setup []string
	// PhaseTimeout bounds each phase. Zero means [DefaultPhaseTimeout].
	PhaseTimeout time.Duration
}

// DefaultPhaseTimeout bounds a phase of an Image, where the Image does not.
const DefaultPhaseTimeout = 20 * time.Minute

// A Mount attaches storage that outlives the pool.
type Mount struct {
	// Source is what is attached, in the provider's words: for containers an
	// absolute path on the engine's machine, or the name of a volume.
	Source string
	// Target is where it appears on the node: an absolute path.
	Target string
	// ReadOnly forbids writing to it.
	ReadOnly bool
}
