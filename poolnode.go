package gputrain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/internal/worker"
)

// A poolNode is one node of a pool, at one rank. live owns its life.
type poolNode struct {
	p       *pool
	rank    int
	name    string
	hostKey HostKey
	pin     ssh.Pin         // what the first contact showed, where nothing else decides
	ctx     context.Context // ends when the node is given up, or with the pool
	cancel  context.CancelCauseFunc

	// Set once by live before the node is ready.
	client *ssh.Client
	super  *supervisor.Node
	remote *transfer.Remote
	worker workerHost

	left     bool  // adopted, and left as it was found
	leaveErr error // why that was not possible when the node failed
	closeSSH sync.Once

	// Guarded by p.mu.
	inst   Instance
	facts  supervisor.Facts
	has    devices
	labels map[string]string // made anew with every state, not changed
	state  NodeState
	err    error
	busy   int
	slots  []bool
	pinned queue
}

func newPoolNode(p *pool, rank int, hostKey HostKey) *poolNode {
	n := &poolNode{p: p, rank: rank, name: fmt.Sprintf("%s-%d", p.id, rank), hostKey: hostKey, slots: make([]bool, p.spec.concurrency())}
	n.ctx, n.cancel = context.WithCancelCause(p.ctx)
	n.worker.n = n
	n.worker.alone = sync.OnceValue(func() *worker.Members { return membersOf([]*poolNode{n}) })
	return n
}

func (n *poolNode) request() NodeRequest {
	return NodeRequest{Rank: n.rank, Name: n.name, HostKey: n.hostKey}
}

// live takes a machine from its launch to its end.
func (n *poolNode) live(inst Instance) {
	n.p.mu.Lock()
	n.inst = inst
	n.p.mu.Unlock()
	if err := n.bringUp(); err != nil {
		n.fail(n.p.interrupted(err))
		return
	}
	n.guard()
}

// bringUp makes the node ready.
func (n *poolNode) bringUp() error {
	n.enter(NodeConnecting, nil)
	if err := n.connect(); err != nil {
		return err
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

// connect waits for the machine and for its SSH server, and takes the node over.
func (n *poolNode) connect() error {
	limit := n.p.caps.ProvisionTimeout
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
		return &Error{Provider: n.p.provider, Op: "connect to " + n.name, Kind: kindOfSSH(err), Err: err}
	}
	if err := n.client.Connect(ctx); err != nil {
		return n.explain(ctx, "connect", err)
	}
	selfDestruct := ""
	if d, ok := n.p.driver.(SelfDestructor); ok {
		selfDestruct = d.SelfDestruct(inst)
	} else if n.p.caps.Adopts && !n.p.caps.KeepCache {
		selfDestruct = lapseCache
	}
	n.super, err = supervisor.Start(ctx, n.client, supervisor.Config{
		PoolID: n.p.id, Name: n.name, Lease: n.p.spec.lease(), TTL: n.p.spec.TTL, SelfDestruct: selfDestruct,
		Disk: n.p.spec.DiskGiB > 0,
	})
	if err != nil {
		return n.explain(ctx, "take over", err)
	}
	facts := n.super.Facts()
	n.remote = &transfer.Remote{Client: n.client, Tools: transferTools(facts), Dir: facts.WorkDir}
	n.p.mu.Lock()
	n.facts = facts
	n.p.mu.Unlock()
	return n.learnDevices(ctx)
}

// explain says why a machine could not be reached, and asks the provider what
// became of it.
func (n *poolNode) explain(ctx context.Context, op string, err error) error {
	if n.ctx.Err() != nil {
		return context.Cause(n.ctx)
	}
	e := &Error{Provider: n.p.provider, Op: op + " " + n.name, Kind: kindOfSSH(err), Err: err}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		e.Err = fmt.Errorf("%w: %w", cause, err)
	}
	found, descErr := n.p.driver.Describe(n.ctx, n.inst.ID)
	if descErr == nil && len(found) == 1 && found[0].State != InstanceRunning {
		e.Err = fmt.Errorf("%w (the provider says: %v %s)", e.Err, found[0].State, found[0].StateReason)
	}
	return e
}

// awaitEndpoint asks the provider until the machine can be reached.
func (n *poolNode) awaitEndpoint(ctx context.Context) (Instance, error) {
	inst := n.inst
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		switch inst.State {
		case InstanceRunning:
			if inst.SSH.Addr != "" {
				return inst, nil
			}
		case InstanceFailed, InstanceTerminated, InstancePreempted:
			kind := ErrNoCapacity
			if inst.State == InstancePreempted {
				kind = ErrPreempted
			}
			return inst, &Error{Provider: n.p.provider, Op: "launch " + n.name, Kind: kind, Err: fmt.Errorf("the machine is %v: %s", inst.State, inst.StateReason)}
		}
		if !sleep(ctx, wait) {
			return inst, n.explain(ctx, "launch", fmt.Errorf("the machine is %v", inst.State))
		}
		found, err := n.p.driver.Describe(ctx, inst.ID)
		if err != nil && ctx.Err() == nil {
			return inst, err
		}
		if len(found) == 1 {
			inst = found[0]
			n.p.mu.Lock()
			n.inst = inst
			n.p.mu.Unlock()
		}
	}
}

// prove compares the node with what the spec asks for.
func (n *poolNode) prove() error {
	const tolerance = 0.9 // firmware and kernel keep some
	facts, spec := n.facts, n.p.spec
	memory, disk := float64(facts.MemoryBytes)/(1<<30), float64(facts.DiskFreeBytes)/(1<<30)
	var f faults
	if short(float64(facts.CPUs), spec.VCPUs) {
		f.add("it has %d vCPUs; the spec asks for %g", facts.CPUs, spec.VCPUs)
	}
	if short(memory, tolerance*spec.MemoryGiB) {
		f.add("it has %.1f GiB of memory; the spec asks for %g", memory, spec.MemoryGiB)
	}
	if short(disk, tolerance*spec.DiskGiB) {
		f.add("%s has %.1f GiB free; the spec asks for %g", facts.WorkDir, disk, spec.DiskGiB)
	}
	if len(f) == 0 {
		return nil
	}
	return &Error{Provider: n.p.provider, Op: "check " + n.name, Kind: ErrNoOffers, Err: errors.New(joinSemicolons(f))}
}

// join makes the node ready, once it has every upload that the others have.
func (n *poolNode) join() error {
	for done := 0; ; done++ {
		n.p.mu.Lock()
		if done == len(n.p.uploads) {
			n.enterLocked(NodeReady, nil)
			n.p.dispatchLocked()
			n.p.mu.Unlock()
			return nil
		}
		up := n.p.uploads[done]
		n.p.mu.Unlock()
		if err := n.upload(n.ctx, up); err != nil {
			return err
		}
	}
}

// fail ends a node that never became ready, or was lost.
func (n *poolNode) fail(err error) {
	state := NodeFailed
	switch {
	case n.p.ctx.Err() != nil:
		state = NodeTerminated
	case errors.Is(err, ErrNodeLost):
		state = NodeLost
	}
	n.p.mu.Lock()
	n.enterLocked(state, err)
	n.cancel(err)
	n.p.dispatchLocked()
	n.p.mu.Unlock()
	if n.p.ctx.Err() != nil {
		return // the end of the pool sees to the rest
	}
	if n.p.caps.Adopts {
		n.abandon()
	}
	n.disconnect()
	n.discard()
}

// discard ends the machine of a node that failed, without waiting for the end
// of the pool. What does not succeed here is tried again there.
func (n *poolNode) discard() {
	if n.inst.ID == "" {
		return
	}
	err := n.p.driver.Terminate(n.p.ctx, n.inst.ID)
	if err == nil {
		_, err = n.p.unconfirmed(n.p.ctx, map[string]Resource{n.inst.ID: {}})
	}
	if err != nil {
		n.p.events.emit(Event{Kind: EventNode, Node: n.rank, State: n.p.nodeOf(n).State.String(), Err: err})
	}
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
	n.state, n.labels = s, n.labelsLocked()
	if err != nil {
		n.err = err
	}
	n.p.events.emit(Event{Kind: EventNode, Node: n.rank, State: s.String(), Err: err})
	n.p.changed.Broadcast()
}

func (n *poolNode) publicLocked() Node {
	return Node{
		Rank: n.rank, ID: n.inst.ID, Name: n.name, State: n.state,
		Provider: n.p.provider, Region: n.inst.Offer.Region, InstanceType: n.inst.Offer.InstanceType,
		HourlyUSD: n.inst.Offer.HourlyUSD, Accelerator: n.inst.Offer.Accelerator,
		PublicAddr: n.inst.PublicAddr, PrivateAddr: n.inst.PrivateAddr,
		OS: n.facts.OS, Arch: n.facts.Arch, VCPUs: n.facts.CPUs, MemoryGiB: float64(n.facts.MemoryBytes) / (1 << 30),
		labels: n.labels,
	}
}

// takesTasks reports whether a task can start on the node now.
func (n *poolNode) takesTasks() bool { return n.state == NodeReady && n.busy < len(n.slots) }

func (n *poolNode) takeSlot() int {
	n.busy++
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
}
