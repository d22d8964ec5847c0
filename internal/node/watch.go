package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// The provider is asked about a node that has been unreachable for inquiryDelay, and then
	// at least every inquiryInterval.
	inquiryDelay    = 3 * time.Second
	inquiryInterval = 15 * time.Second
	// A provider that has not answered for offlinePatience shows that this program was offline.
	offlinePatience = 30 * time.Second
	// UnreachableTimeout is how long a node may be unreachable, although its provider reports
	// that it runs, before it is given up.
	UnreachableTimeout = 2 * time.Minute
)

// A watcher finds out why a node that was reached is lost.
type watcher struct {
	node  *Node
	asked inquiry // since the node is unreachable
}

// watch looks after a node from when it was reached until it is given up, and returns why it is
// lost, or nil.
func (n *Node) watch() error {
	if text := n.preemptionWatch(); text != "" {
		n.settings.Go(func() { n.watchNotice(text) })
	}
	if n.isMetered() {
		n.settings.Go(func() { watchTraffic(n) })
	}
	w := watcher{node: n}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	client, machine := n.Client(), n.onMachine()
	for {
		tasks := n.Supervisor() // another one, once there is a container
		select {
		case <-n.ctx.Done():
			return nil
		case <-client.Done():
			if n.ctx.Err() != nil {
				return nil
			}
			return n.lost(client.Err())
		case <-machine.Done():
			if n.ctx.Err() != nil {
				return nil // it was given up before: see Seal
			}
			return n.lost(w.ended(machine.Err()))
		case <-tasks.Done():
			if n.ctx.Err() != nil {
				return nil
			}
			return n.lost(w.ended(tasks.Err()))
		case <-tick.C:
		}
		since, down := client.Down()
		n.owner.Reachable(!down)
		if !down {
			w.asked = inquiry{}
			continue
		}
		if why := w.unreachable(since); why != nil && n.ctx.Err() == nil {
			return n.lost(why)
		}
	}
}

// ended returns why the node's supervisor has ended. The owner decides whether another program has taken the pool: a
// node that reports so without the ledger's confirmation is only lost.
func (w *watcher) ended(why error) error {
	if !errors.Is(why, supervisor.ErrFenced) || w.node.owner.TakenOver(why) {
		return why
	}
	return errors.New("it reports that another program has taken it over, and by the pool's ledger none has")
}

// lost is the error of a node that was reached and is given up.
func (n *Node) lost(why error) error {
	kind := kindOf(why)
	if kind != driver.ErrUnavailable && !errors.Is(why, driver.ErrPreempted) {
		why = &driver.Error{Kind: kind, Err: why} // a host key that changed, a login that is refused now
	}
	return &driver.Error{Provider: n.Provider(), Op: n.Name(), Kind: driver.ErrNodeLost, Err: why, Hint: n.advice(kind)}
}

// An inquiry is a question to a provider about a node that cannot be reached.
type inquiry struct {
	next     time.Time // when to ask again
	answered time.Time // when there was an answer last
	online   time.Time // since when this program reaches the provider, and not the node
}

// unreachable returns why a node that has been down since a time is lost, or nil. Its provider
// decides. If the provider cannot be reached either, this program is offline, and nothing is
// given up: UnreachableTimeout begins once the provider answers again. If no node of the pool
// can be reached, although the provider can, the node has as long as the lease, which is what
// the nodes themselves wait.
func (w *watcher) unreachable(since time.Time) error {
	n, asked := w.node, &w.asked
	at := time.Now()
	if at.Sub(since) < inquiryDelay || at.Before(asked.next) {
		return nil
	}
	ctx, cancel := context.WithTimeout(n.ctx, 10*time.Second)
	defer cancel()
	found, err := n.settings.Describer.describe(ctx, n.Instance().ID)
	at = time.Now()
	asked.next = at.Add(min(at.Sub(since)/4, inquiryInterval))
	if err != nil {
		return nil
	}
	if asked.answered.IsZero() {
		asked.answered, asked.online = since, since
	}
	if at.Sub(asked.answered) > offlinePatience {
		asked.online = at
	}
	asked.answered = at
	switch found.State {
	case driver.InstanceTerminated, driver.InstanceFailed, driver.InstanceStopped:
		return fmt.Errorf("the provider reports that the machine is %v%s", found.State, afterColon(found.StateReason))
	case driver.InstancePreempted:
		return fmt.Errorf("%w%s", driver.ErrPreempted, afterColon(found.StateReason))
	}
	limit := UnreachableTimeout
	if n.owner.Offline() {
		limit = max(limit, n.settings.Lease)
	}
	if at.Sub(asked.online) < limit {
		return nil
	}
	return fmt.Errorf("unreachable for %v, though the provider reports that it is %v", at.Sub(since).Round(time.Second), found.State)
}
