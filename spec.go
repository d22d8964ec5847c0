package gputrain

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/secretref"
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
	// Concurrency is the number of tasks that run on a node at once: its slots. Zero means 1.
	Concurrency int

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
	// team or project. A provider may refuse characters. Names that begin with "gputrain" are reserved.
	Tags map[string]string `json:",omitzero"`

	// RequireKnownHostKey rejects offers of machines whose host keys are known only from the first
	// contact ([HostKeyFirstContact]): an attacker between this program and such a machine at that
	// moment could take its place.
	RequireKnownHostKey bool

	// Image is what a node needs before it runs tasks.
	Image Image
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
	// is asked again after five seconds, and less and less often, up to every two minutes; an [EventPool]
	// of state "waiting" says for what. If Nodes is 0, Open needs no room, and the first task waits.
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

	// A node that has not heard from this program for Lease ends its tasks and, if it can, itself.
	// The pool renews the lease all the time, so that it never ends a long job. Zero means 15
	// minutes; the least is five seconds.
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
)

// An Image describes what a node needs before it runs tasks. Its parts run in the order of its fields,
// each as a named phase, on all nodes at once. A node does not repeat a phase that it has done
// already, by the hash of what was asked.
type Image struct {
	// Apt are system packages, installed with apt, apk or dnf, whichever the
	// node has. The names are the node's distribution's.
	Apt []string
	// Python is the version of Python for the tasks' virtual environment: "3.12". Empty means the
	// node's python3 if Pip is set, and no environment otherwise. A version that the node lacks
	// needs uv there.
	Python string
	// Pip are Python packages, as pip takes them: "torch==2.4.0". They go into
	// the virtual environment, by uv if the node has it.
	Pip []string
	// PipIndexes are further package indexes, tried beside the usual one. The address may not
	// contain a password: configure such an index through Env.
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
	// PhaseTimeout bounds each phase. Zero means 20 minutes.
	PhaseTimeout time.Duration
}

// Query returns the part of the spec that a driver is asked with: see package driver.
func (s Spec) Query() driver.Query {
	return driver.Query{
		Accelerator: s.Accelerator, Nodes: s.maxNodes(), VCPUs: s.VCPUs, MemoryGiB: s.MemoryGiB, DiskGiB: s.DiskGiB,
		MaxVCPUs: s.MaxVCPUs, MaxMemoryGiB: s.MaxMemoryGiB, MaxDiskGiB: s.MaxDiskGiB, InstanceTypes: s.InstanceTypes, Arch: s.Arch, Regions: s.Regions, Countries: s.Countries,
		Allocation: s.Allocation, MaxHourlyUSD: s.MaxHourlyUSD, MinHourlyUSD: s.MinHourlyUSD, AllowUnknownPrice: s.AllowUnknownPrice, TTL: s.TTL, Mounts: s.Mounts, IngressGiB: s.IngressGiB, EgressGiB: s.EgressGiB,
	}
}

// packages is the part of the image that a driver may have installed before a machine starts.
func (s Spec) packages() driver.Packages {
	i := s.Image
	return driver.Packages{Apt: i.Apt, Python: i.Python, Pip: i.Pip, PipIndexes: i.PipIndexes, Env: i.Env, PhaseTimeout: i.PhaseTimeout}
}

// wants returns what the market looks for.
func (s Spec) wants() market.Wants {
	return market.Wants{Query: s.Query(), AnyOf: s.AnyOf, Speed: s.Speed, RequireKnownHostKey: s.RequireKnownHostKey, BudgetUSD: s.BudgetUSD}
}

// Validate reports everything that is wrong with the spec, in one error that
// is [ErrInvalid]. Open calls it before anything is contacted.
func (s Spec) Validate() error {
	var f faults
	f.count("Nodes", s.Nodes)
	f.count("MinReady", s.MinReady)
	f.count("Concurrency", s.Concurrency)
	f.count("MaxNodes", s.MaxNodes)
	f.duration("IdleTimeout", s.IdleTimeout)
	if s.MaxNodes > 0 && s.MaxNodes < s.Nodes {
		f.add("MaxNodes is %d, fewer than the %d of Nodes", s.MaxNodes, s.Nodes)
	}
	if s.IdleTimeout > 0 && s.MaxNodes == 0 {
		f.add("IdleTimeout is %v, and without MaxNodes no node is ended for being idle", s.IdleTimeout)
	}
	if s.MaxReplacements < -1 {
		f.add("MaxReplacements is %d; -1 is for none", s.MaxReplacements)
	}
	if s.MaxOffers < -1 {
		f.add("MaxOffers is %d; -1 is for no bound", s.MaxOffers)
	}
	f.text("OnPreemption", s.OnPreemption)
	if s.MinReady > s.nodes() {
		f.add("MinReady is %d, more than the %d of Nodes", s.MinReady, s.nodes())
	}
	if goName := map[string]string{"x86_64": "amd64", "x64": "amd64", "aarch64": "arm64"}[strings.ToLower(s.Arch)]; goName != "" {
		f.add("Arch is %q; in Go's words that is %q", s.Arch, goName)
	}
	f.text("Arch", s.Arch)
	f.names("Regions", s.Regions)
	f.names("InstanceTypes", s.InstanceTypes)
	f.bounds("VCPUs", s.VCPUs, s.MaxVCPUs)
	f.bounds("MemoryGiB", s.MemoryGiB, s.MaxMemoryGiB)
	f.bounds("DiskGiB", s.DiskGiB, s.MaxDiskGiB)
	f.amount("MaxHourlyUSD", s.MaxHourlyUSD)
	f.amount("MinHourlyUSD", s.MinHourlyUSD)
	if s.MaxHourlyUSD > 0 && s.MinHourlyUSD > s.MaxHourlyUSD {
		f.add("MinHourlyUSD is %v, more than the %v of MaxHourlyUSD", s.MinHourlyUSD, s.MaxHourlyUSD)
	}
	f.amount("BudgetUSD", s.BudgetUSD)
	f.amount("IngressGiB", s.IngressGiB)
	f.amount("EgressGiB", s.EgressGiB)
	if err := s.Accelerator.Validate(); err != nil {
		f.add("Accelerator: %v", err)
	}
	s.validateChoice(&f)
	f.duration("WaitForCapacity", s.WaitForCapacity)
	f.duration("ProvisionTimeout", s.ProvisionTimeout)
	if s.Allocation < OnDemand || s.Allocation > CheapestAllocation {
		f.add("Allocation is %v; use OnDemand, SpotIfAvailable, Spot or CheapestAllocation", s.Allocation)
	}
	f.duration("Lease", s.Lease)
	f.duration("TTL", s.TTL)
	if s.Lease > 0 && s.Lease < minLease {
		f.add("Lease is %v; the least that can be kept is %v", s.Lease, minLease)
	}
	if s.TTL > 0 && s.TTL < minLease {
		f.add("TTL is %v; the least is %v", s.TTL, minLease)
	}
	for i, m := range s.Mounts {
		validateMount(m, &f, fmt.Sprintf("Mounts[%d]", i))
	}
	s.Image.validate(&f)
	return f.err("spec")
}

// validateChoice checks what chooses between accelerators and places, and the tags.
func (s Spec) validateChoice(f *faults) {
	if len(s.AnyOf) > 0 && !s.Accelerator.IsZero() {
		f.add("Accelerator and AnyOf are set; make Accelerator one of AnyOf")
	}
	for i, a := range s.AnyOf {
		if err := a.Validate(); err != nil {
			f.add("AnyOf[%d]: %v", i, err)
		} else if a.IsZero() {
			f.add("AnyOf[%d] asks for no accelerator", i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Speed)) {
		a, err := accelerators.Parse(name)
		if err == nil && a.IsZero() {
			err = errors.New("it names no accelerator")
		}
		if err != nil {
			f.add("Speed[%q]: %v", name, err)
		}
		if v := s.Speed[name]; !(v > 0) || math.IsInf(v, 0) {
			f.add("Speed[%q] is %v; it must be a number above 0", name, v)
		}
	}
	for i, c := range s.Countries {
		if !countryForm.MatchString(c) {
			f.add("Countries[%d] is %q; use the two letters of ISO 3166-1, as in US", i, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Tags)) {
		if name == "" || strings.HasPrefix(strings.ToLower(name), "gputrain") {
			f.add("Tags has the name %q; it may not be empty or begin with gputrain", name)
		}
		f.text("Tags", name+s.Tags[name])
	}
}

var countryForm = regexp.MustCompile(`^[A-Za-z]{2}$`)

func validateMount(m Mount, f *faults, where string) {
	switch {
	case !path.IsAbs(m.Target):
		f.add("%s.Target %q is not an absolute path", where, m.Target)
	case path.Clean(m.Target) == "/":
		f.add("%s.Target is the node's root", where)
	}
	if m.Source == "" {
		f.add("%s.Source is empty", where)
	}
	f.text(where+".Source", m.Source)
	f.text(where+".Target", m.Target)
	if strings.ContainsAny(m.Source+m.Target, ",\n") {
		f.add("%s has a comma or a newline, which no engine takes", where)
	}
}

func (im Image) validate(f *faults) {
	for name, list := range map[string][]string{
		"Apt": im.Apt, "Pip": im.Pip, "PipIndexes": im.PipIndexes,
		"Include": im.Include, "Exclude": im.Exclude, "Setup": im.Setup,
	} {
		for i, s := range list {
			where := fmt.Sprintf("Image.%s[%d]", name, i)
			if strings.TrimSpace(s) == "" {
				f.add("%s is empty", where)
			}
			f.text(where, s)
		}
	}
	for i, s := range append(im.Apt[:len(im.Apt):len(im.Apt)], im.Pip...) {
		if strings.HasPrefix(s, "-") {
			f.add("Image package %d, %q, would be read as an option", i, s)
		}
	}
	for i, s := range im.PipIndexes {
		if u, err := url.Parse(s); err != nil || u.Host == "" {
			f.add("Image.PipIndexes[%d] is not an address", i)
		} else if u.User != nil {
			f.add("Image.PipIndexes[%d], at %s, holds a user or password, which would be readable on the node", i, u.Host)
		}
	}
	f.text("Image.Python", im.Python)
	f.env("Image.Env", im.Env)
	f.duration("Image.PhaseTimeout", im.PhaseTimeout)
}

// faults collects everything that is wrong, so that one error reports all of it.
type faults []string

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

func (f *faults) count(name string, n int) {
	if n < 0 {
		f.add("%s is %d; it counts, so it cannot be negative", name, n)
	}
}

func (f *faults) amount(name string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		f.add("%s is %v; it must be a number from 0 up", name, v)
	}
}

// bounds checks a minimum, and the maximum whose name begins with Max.
func (f *faults) bounds(name string, least, most float64) {
	f.amount(name, least)
	f.amount("Max"+name, most)
	if most > 0 && least > most {
		f.add("%s is %v, more than the %v of Max%[1]s", name, least, most)
	}
}

// names rejects empty names in a list.
func (f *faults) names(list string, all []string) {
	for i, s := range all {
		where := fmt.Sprintf("%s[%d]", list, i)
		if strings.TrimSpace(s) == "" {
			f.add("%s is empty", where)
		}
		f.text(where, s)
	}
}

func (f *faults) duration(name string, d time.Duration) {
	if d < 0 {
		f.add("%s is %v; it cannot be negative", name, d)
	}
}

// text rejects text that cannot be handed to a process.
func (f *faults) text(name, s string) {
	if strings.ContainsRune(s, 0) {
		f.add("%s has a NUL byte, which no process can be given", name)
	}
}

// secret rejects a value that cannot be handed to a process, and a malformed reference.
func (f *faults) secret(name string, s Secret) {
	f.text(name, string(s))
	if err := secretref.Check(string(s)); err != nil {
		f.add("%s: %v", name, err)
	}
}

// env rejects names that sh cannot set. Values are not printed.
func (f *faults) env(where string, env map[string]string) {
	for name, value := range env {
		f.envName(where, name)
		f.text(fmt.Sprintf("%s[%q]", where, name), value)
	}
}

func (f *faults) envName(where, name string) {
	if !isEnvName(name) {
		f.add("%s has the name %q; sh takes letters, digits and _, not starting with a digit", where, name)
	}
	if strings.HasPrefix(name, "GPUTRAIN_") {
		f.add("%s has the name %q; names with GPUTRAIN_ are gputrain's own", where, name)
	}
}

func isEnvName(s string) bool {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// err joins the faults into one ErrInvalid, or returns nil.
func (f faults) err(what string) error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Op: what, Kind: ErrInvalid, Err: errors.New(strings.Join(f, "; "))}
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
