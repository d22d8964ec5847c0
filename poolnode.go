package gputrain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/internal/worker"
)

// A poolNode is one node of a pool, at one rank. live owns its life.
type poolNode struct {
	p       *pool
	at      atomic.Int32 // its rank
	of      atomic.Pointer[member]
	hostKey HostKey //secretvet:ignore users hold a node by a pointer of the pool's, which fmt does not follow
	root    string  // its folder on the machine, where an earlier program has made it
	server  serverKey

	byPassword atomic.Bool     // the machine was asked to let in by its password
	ctx        context.Context // ends when the node is given up, or with the pool
	cancel     context.CancelCauseFunc

	// Set once by live before the node is ready.
	client *ssh.Client
	super  *supervisor.Node
	found  []supervisor.Found // what ran there when it was attached to
	remote *transfer.Remote
	worker workerHost
	rise   *rise

	questions questions // that are asked before it is ready

	tries    int  // machines of this rank, in a row, that failed before this one
	had      bool // one of this rank was ready
	refused  int  // offers that have refused it one, in a row, before it had any
	waits    int  // how often, since waiting, there was no room for one
	waiting  time.Time
	left     bool  // adopted, and left as it was found
	leaveErr error // why that was not possible when the node failed
	closeSSH sync.Once

	// Guarded by p.mu.
	name     string   // of the machine; not changed once that is launched
	inst     Instance //secretvet:ignore as hostKey
	offer    Offer    // by which that was rented; of one for any place inst tells where it is
	facts    supervisor.Facts
	has      devices
	labels   map[string]string // made anew with every state, not changed
	state    NodeState
	err      error
	ready    time.Time // since when it takes tasks; zero where it never did
	idle     time.Time // since when it has none
	leaves   bool      // it takes no more tasks, and is ended once it has none
	retiring bool      // it is being ended
	taken    time.Time // when its provider takes it back; zero where that is not known
	busy     int
	slots    []bool
	pinned   queue              // shares of broadcasts
	targets  []*queue           // for labels that it has
	turns    [queueKinds]uint64 // when each kind of queue had one of its slots last
}

func newPoolNode(p *pool, rank int) *poolNode {
	n := &poolNode{p: p, slots: make([]bool, p.spec.concurrency())}
	n.at.Store(int32(rank))
	n.ctx, n.cancel = context.WithCancelCause(p.ctx)
	n.worker.n, n.rise = n, newRise(n)
	n.worker.alone = sync.OnceValue(func() *worker.Members { return membersOf([]*poolNode{n}) })
	return n
}

// rank is the node's index in the pool. It changes only where an elastic pool
// becomes smaller.
func (n *poolNode) rank() int { return int(n.at.Load()) }

// prepare gives the node a machine's name that was never used, and an identity.
func (n *poolNode) prepare(m *member) error {
	n.of.Store(m)
	hostKey := HostKey{}
	if m.caps.HostKeys == HostKeyInjected {
		var err error
		if hostKey, err = newHostKey(); err != nil {
			return err
		}
	}
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	n.name, n.hostKey = n.p.newNameLocked(n.rank()), hostKey
	return nil
}

// newNameLocked returns "<pool id>-<rank>", with a suffix from the second machine of
// that rank on.
func (p *pool) newNameLocked(rank int) string {
	name := fmt.Sprintf("%s-%d", p.id, rank)
	if p.named == nil {
		p.named = map[int]int{}
	}
	p.named[rank]++
	if again := p.named[rank] - 1; again > 0 {
		name += fmt.Sprintf("-r%d", again)
	}
	return name
}

func (n *poolNode) request() NodeRequest {
	return NodeRequest{Rank: n.rank(), Name: n.name, HostKey: n.hostKey}
}

// live takes a machine from its launch to its end. beside is the error that came with it, if any: should
// the machine not come up, that is the first to say why.
func (n *poolNode) live(inst Instance, beside error) {
	n.p.mu.Lock()
	n.inst = inst
	unwanted := n.state.over() // the pool has become smaller meanwhile
	n.p.mu.Unlock()
	if unwanted {
		n.discard()
		return
	}
	n.enter(NodeConnecting, nil)
	n.p.lives.Go(func() { n.rise.watch(inst) })
	if err := n.connect(); err != nil {
		n.questions.end()
		err = n.because(err)
		if beside != nil && n.p.ctx.Err() == nil {
			err = fmt.Errorf("%w (its launch was answered: %v)", err, beside)
		}
		n.fail(err)
		return
	}
	var bringing sync.WaitGroup
	bringing.Go(func() {
		defer n.questions.end()
		if err := n.bringUp(); err != nil {
			n.fail(n.because(err))
		}
	})
	if why := n.guard(); why != nil {
		n.fail(why)
	}
	bringing.Wait()
}

// because returns why what was tried with the machine failed: that the pool has ended, or
// that the node was given up meanwhile, comes before an error that follows from it.
func (n *poolNode) because(err error) error {
	if n.ctx.Err() != nil && n.p.ctx.Err() == nil {
		return context.Cause(n.ctx)
	}
	return n.p.interrupted(err)
}

// bringUp makes the node ready.
func (n *poolNode) bringUp() error {
	if n.root != "" {
		n.take(n.found)
		if base, ready := n.p.recalled.bases[n.name]; ready {
			n.super.SetBase(base.Env, base.Path)
			return n.rejoin()
		}
	}
	if err := n.prove(); err != nil {
		return err
	}
	n.enter(NodeBootstrapping, nil)
	if err := n.bootstrap(); err != nil {
		return err
	}
	return n.join()
}

// rejoin makes a node ready that was so for an earlier program: it has what that one
// has uploaded.
func (n *poolNode) rejoin() error {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	n.enterLocked(NodeReady, nil)
	n.p.fillLocked(n)
	return nil
}

// connect waits for the machine and for its SSH server, and takes the node over.
func (n *poolNode) connect() error {
	limit := n.caps().ProvisionTimeout
	if limit == 0 {
		limit = DefaultProvisionTimeout
	}
	ctx, cancel := context.WithTimeoutCause(n.ctx, limit, fmt.Errorf("not up within %v", limit))
	defer cancel()
	inst, err := n.awaitEndpoint(ctx)
	if err != nil {
		return err
	}
	if n.client, err = n.p.sshClient(n, inst); err != nil {
		return &Error{Provider: n.provider(), Op: "connect to " + n.whereabouts(), Kind: kindOfSSH(err), Err: err}
	}
	if err := n.client.Connect(ctx); err != nil {
		return n.explain(ctx, "connect", err)
	}
	if err := n.putKey(ctx); err != nil {
		return n.explain(ctx, "put the pool's key on", err)
	}
	n.askEarly(n.ctx)
	selfDestruct := ""
	m := n.member()
	if d, ok := m.driver.(SelfDestructor); ok {
		selfDestruct = d.SelfDestruct(m.own(inst))
	} else if m.caps.Adopts && !m.caps.KeepCache {
		selfDestruct = lapseCache
	}
	cfg := supervisor.Config{
		PoolID: n.p.id, Name: n.name, Lease: n.p.spec.lease(), SelfDestruct: selfDestruct,
		Disk: n.p.spec.DiskGiB > 0, Generation: n.p.generation, Root: n.root, Disposable: !m.caps.Adopts,
	}
	if !n.p.info.Expires.IsZero() {
		cfg.TTL = max(n.p.info.Expires.Sub(now()), time.Second)
	}
	if n.root != "" {
		n.super, n.found, err = supervisor.Attach(ctx, n.client, cfg)
	} else {
		n.super, err = supervisor.Start(ctx, n.client, cfg)
	}
	if err != nil {
		return n.explain(ctx, "take over", err)
	}
	facts := n.super.Facts()
	n.noteLeased(facts)
	n.remote = &transfer.Remote{Client: n.client, Tools: transferTools(facts), Dir: facts.WorkDir}
	n.p.mu.Lock()
	n.facts = facts
	n.p.mu.Unlock()
	n.learnDevices()
	if err := n.findAddress(ctx); err != nil {
		return err
	}
	return n.probe(ctx)
}

// whereabouts names the machine in errors, an adopted one by its address too.
func (n *poolNode) whereabouts() string {
	if addr := n.machine().SSH.Addr; n.caps().Adopts && addr != "" {
		return n.name + " at " + addr
	}
	return n.name
}

// fail ends a node that never became ready, or was lost. Another one takes its
// rank, where that may help.
func (n *poolNode) fail(err error) {
	state := NodeFailed
	if n.p.ctx.Err() == nil {
		err = notDeadline(err)
	}
	switch {
	case n.p.ctx.Err() != nil:
		state = NodeTerminated
	case errors.Is(err, ErrNodeLost):
		state = NodeLost
	}
	n.p.mu.Lock()
	if n.state.over() { // somebody else has seen to it
		n.p.mu.Unlock()
		return
	}
	if state == NodeLost && n.ready.IsZero() {
		state = NodeFailed
	}
	n.enterLocked(state, err)
	n.cancel(err)
	n.p.replaceLocked(n, err)
	n.p.dispatchLocked()
	n.p.mu.Unlock()
	if n.p.ctx.Err() != nil {
		return // the end of the pool sees to the rest
	}
	if n.caps().Adopts {
		n.abandon()
	}
	n.disconnect()
	n.discard()
	n.p.letGo(n)
}

// discard ends the machine of a node that is over, without waiting for the end
// of the pool. What does not succeed here is tried again by an audit, and there.
func (n *poolNode) discard() {
	n.p.mu.Lock()
	id := n.inst.ID
	n.p.mu.Unlock()
	if id == "" {
		return
	}
	n.p.discard(id, func(err error) {
		n.p.events.emit(Event{Kind: EventNode, Node: n.rank(), State: n.p.nodeOf(n).State.String(), Err: err})
		n.p.auditSoon()
	})
}

// isOver reports whether the node was given up, or is about to be: what runs
// on it hears of that before its guard has said why.
func (n *poolNode) isOver() bool {
	select {
	case <-n.client.Done():
	case <-n.super.Done():
	default:
		return n.ctx.Err() != nil
	}
	<-n.ctx.Done()
	return true
}

// isUp reports whether the node can be reached now.
func (n *poolNode) isUp() bool {
	_, down := n.client.Down()
	return !down
}

func (n *poolNode) disconnect() {
	n.closeSSH.Do(func() {
		n.cancel(ErrClosed)
		n.worker.close()
		if n.client != nil {
			n.client.Close()
		}
	})
}

func (n *poolNode) enter(s NodeState, err error) {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	n.enterLocked(s, err)
}

func (n *poolNode) enterLocked(s NodeState, err error) {
	if n.state.over() {
		return // whoever still had to do with it comes too late
	}
	n.state, n.labels = s, n.labelsLocked()
	if err != nil {
		n.err = err
	}
	if s == NodeReady && n.ready.IsZero() {
		n.ready, n.idle = now(), now()
	}
	n.p.tasks.relabel(n)
	n.p.tasks.update(n)
	ev := Event{Kind: EventNode, Node: n.rank(), State: s.String(), Err: err}
	if s == NodeBootstrapping || s == NodeReady {
		ev.HostKey, ev.HostKeySource = n.server.known()
	}
	n.p.events.emit(ev)
	n.p.changed.Broadcast()
}

func (n *poolNode) publicLocked() Node {
	hostKey, source := n.server.known()
	return Node{
		HostKey: hostKey, HostKeySource: source,
		Rank: n.rank(), ID: n.inst.ID, Name: n.name, State: n.state,
		Provider: n.provider(), Region: n.inst.Offer.Region, InstanceType: n.inst.Offer.InstanceType,
		HourlyUSD: n.inst.Offer.HourlyUSD, Accelerator: n.inst.Offer.Accelerator,
		PublicAddr: n.inst.PublicAddr, PrivateAddr: n.inst.PrivateAddr,
		OS: n.facts.OS, Arch: n.facts.Arch, VCPUs: n.facts.CPUs, MemoryGiB: float64(n.facts.MemoryBytes) / (1 << 30),
		labels: n.labels,
	}
}

// takesPart reports whether the node gets tasks that it has not got already: not where
// it is to end, or its provider will take it back.
func (n *poolNode) takesPart() bool { return n.state == NodeReady && !n.leaves && n.taken.IsZero() }

// takesTasks reports whether a task can start on the node now.
func (n *poolNode) takesTasks() bool { return n.takesPart() && n.busy < len(n.slots) }

func (n *poolNode) takeSlot() int {
	n.busy++
	n.p.tasks.update(n)
	for i, taken := range n.slots {
		if !taken {
			n.slots[i] = true
			return i
		}
	}
	return 0 // takesTasks said that there is one
}

func (n *poolNode) freeSlot(i int) {
	n.slots[i] = false
	n.busy--
	n.p.tasks.update(n)
	if n.busy == 0 {
		n.idle = now()
		if n.leaves || n.p.spec.MaxNodes > 0 {
			n.p.rescale()
		}
	}
}
