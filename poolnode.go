package gputrain

import (
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/calls"
	"github.com/gputrain/gputrain/internal/checkpoint"
	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/telemetry"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/providers/driver"
)

// A poolNode makes attempts at commands, and calls functions, on one node. It is the member's
// [fleet.Guest].
type poolNode struct {
	*fleet.Member
	p       *pool
	calls   *calls.Host
	usage   telemetry.Monitor
	keepers checkpoint.Running
}

// newFleet returns the pool's fleet, which has no nodes yet.
func (p *pool) newFleet() *fleet.Fleet {
	return fleet.New(fleet.Config{
		Context: p.ctx, Least: p.spec.nodes(), Most: p.spec.maxNodes(), Elastic: p.spec.MaxNodes > 0, Slots: p.spec.concurrency(), Units: p.spec.units(p.account.MayAdopt()),
		Replacements: p.spec.replacements(), IdleTimeout: p.spec.idleTimeout(), WaitForCapacity: p.spec.WaitForCapacity, MaxOffers: p.spec.maxOffers(),
		Node: p.newNodeSettings(), Packages: p.spec.packages(p.given.any()), ImageLogin: func() driver.ImageLogin { return imageLogin(p) }, Market: p.market, Inventory: p.inventory, Spending: p.spending,
		Lock: &p.mu, Running: &p.running, Reporter: reporter{p}, History: p.opts.stateDir.history(), Guest: p.newNode,
	})
}

// newNodeSettings returns the settings that all nodes of the pool have in common.
func (p *pool) newNodeSettings() *node.Settings {
	return &node.Settings{
		Pool: p.id, Generation: p.generation, Provider: p.account.Provider, Driver: p.account.Driver, Capabilities: p.account.Caps,
		Describer: node.NewDescriber(p.ctx, p.account.Driver, p.lives.Go, p.spending.Seen),
		Login:     p.keys, AuthorizedKeys: p.spec.AuthorizedKeys, Lease: p.spec.lease(), Expires: p.expires, Wants: p.opts.wants(p.spec), ProvisionTimeout: p.spec.ProvisionTimeout, RequireKnownHostKey: p.spec.RequireKnownHostKey,
		Image: bootstrap.Image(p.spec.Image), Docker: dockerPool(p), GPUSharing: p.spec.GPUSharing, Given: p.given.forNodes(), OnPreemption: p.spec.OnPreemption,
		Output: p.out, Secrets: p.secrets, Go: p.lives.Go,
	}
}

func (p *pool) newNode(m *fleet.Member) fleet.Guest {
	n := &poolNode{Member: m, p: p}
	n.calls = calls.NewHost(p.callsConfig(), newAttemptNode(n))
	return n
}

// nodeOn returns the node that the slots belong to, or nil.
func nodeOn(slots *scheduler.Node) *poolNode {
	if slots == nil {
		return nil
	}
	return nodeOf(fleet.Of(slots))
}

func nodeOf(m *fleet.Member) *poolNode { return m.Guest().(*poolNode) }

func (n *poolNode) Phase(phase string, state bootstrap.State, elapsed, usual time.Duration) {
	ev := n.event(EventPhase, state.String())
	ev.Phase, ev.Elapsed, ev.Usual = phase, elapsed, usual
	n.p.events.emit(ev)
}

func (n *poolNode) Progressed(phase string, p bootstrap.Progress) {
	ev := n.event(EventProgress, "")
	ev.Phase, ev.Progress = phase, Progress(p)
	n.p.events.emit(ev)
}

// event returns an event about the node.
func (n *poolNode) event(k EventKind, state string) Event {
	ev := Event{Kind: k, State: state, Node: n.Rank()}
	if n.p.events.seen() {
		ev.At = n.p.nodeOf(n)
	}
	return ev
}

// transferred returns an event about a transfer to or from the node, of which some is known.
func (n *poolNode) transferred(state string, ev Event) Event {
	of := n.event(EventTransfer, state)
	ev.Kind, ev.State, ev.Node, ev.At = of.Kind, of.State, of.Node, of.At
	return ev
}

func (n *poolNode) Sending() (transfer.Progress, func(error)) {
	return n.p.events.transfer(n.transferred("sending", Event{Phase: "files"}))
}

func (n *poolNode) Bootstrapped(base bootstrap.Base) {
	n.p.journal.AddEnvironment(journal.Environment{Node: n.Node.Name(), Env: base.Env, Path: base.Path, Image: n.Node.ContainerImage()})
}

func (n *poolNode) Leased(folder, hostKey string) {
	var hostKeys []string
	if hostKey != "" {
		hostKeys = []string{hostKey}
	}
	n.p.inventory.Leased(n.Node.Instance(), folder, hostKeys)
}

func (n *poolNode) Resume(found []supervisor.Found) (bootstrap.Base, bool) {
	n.take(found)
	env, ready := n.p.resumption.environments[n.Node.Name()]
	return bootstrap.Base{Env: env.Env, Path: env.Path}, ready
}

func (n *poolNode) Join(resumed bool) error {
	if resumed { // it has what the earlier program has uploaded
		n.p.mu.Lock()
		n.Ready()
		n.p.mu.Unlock()
	} else if err := n.join(); err != nil {
		return err
	}
	n.watchUsage()
	return nil
}

func (n *poolNode) TakenOver(why error) bool {
	if !errors.Is(n.p.inventory.Fenced(), ErrFenced) {
		return false
	}
	n.p.finish(&Error{Provider: n.Node.Provider(), Op: "pool", Kind: ErrFenced, Err: why})
	return true
}

// Failure returns the error of a node's bootstrap as a [BootstrapError], and any other error
// unchanged.
func (n *poolNode) Failure(err error) error {
	failed, ok := errors.AsType[*bootstrap.Error](err)
	if !ok {
		return err
	}
	return &BootstrapError{
		Node: n.p.nodeOf(n), Phase: failed.Phase, ExitCode: failed.ExitCode, Elapsed: failed.Elapsed,
		Tail: n.p.secrets.Text(strings.Join(failed.Tail, "\n")), Err: n.p.withoutSecrets(failed.Err),
	}
}

func (n *poolNode) Close() { n.calls.Close() }

// public returns the node as the user sees it. The pool's lock is held.
func (n *poolNode) public() Node {
	hostKey, source := n.Node.HostKey()
	inst, facts := n.Node.Instance(), n.Node.Facts()
	return Node{
		HostKey: hostKey, HostKeySource: source,
		Rank: n.Rank(), ID: inst.ID, Name: n.Node.Name(), State: n.State(),
		Provider: n.Node.Provider(), Region: inst.Offer.Region, InstanceType: inst.Offer.InstanceType,
		HourlyUSD: inst.Offer.HourlyUSD, Accelerator: inst.Offer.Accelerator,
		PublicAddr: inst.PublicAddr, PrivateAddr: inst.PrivateAddr, Ports: maps.Clone(inst.Ports),
		OS: facts.OS, Arch: facts.Arch, VCPUs: facts.CPUs, MemoryGiB: float64(facts.MemoryBytes) / (1 << 30),
		labels: n.Labels(),
	}
}

func (p *pool) nodeOf(n *poolNode) Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return n.public()
}

func (p *pool) snapshot() []Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	nodes := make([]Node, len(p.fleet.Members()))
	for i, m := range p.fleet.Members() {
		nodes[i] = nodeOf(m).public()
	}
	return nodes
}

// readyNodes returns the nodes that take tasks now, in rank order. The pool's lock is held.
func (p *pool) readyNodes() (ready []*poolNode) {
	for _, m := range p.fleet.Members() {
		if m.State().Works() {
			ready = append(ready, nodeOf(m))
		}
	}
	return ready
}
