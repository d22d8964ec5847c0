package gputrain

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
)

const (
	// noticeEvery is how often a spot node looks for a notice itself, and
	// describeEvery how often its provider is asked for one.
	noticeEvery, describeEvery = 5 * time.Second, 15 * time.Second
	// A notice that a node finds itself, of an end that is mostNotice away or later, does not
	// count: clouds tell minutes before.
	mostNotice = 24 * time.Hour
)

// preemptionWatch returns the text by which the node looks for a notice, or "".
func (n *poolNode) preemptionWatch() string {
	m := n.member()
	if w, ok := m.driver.(PreemptionWatcher); ok && n.inst.Offer.Spot {
		return w.PreemptionWatch(m.own(n.inst))
	}
	return ""
}

// lookForNotice has the node look for a notice until there is one.
func (n *poolNode) lookForNotice(text string) {
	for sleep(n.ctx, noticeEvery) {
		if _, down := n.client.Down(); down {
			continue
		}
		ctx, cancel := context.WithTimeout(n.ctx, noticeEvery)
		var out ssh.Answer
		err := n.client.Exec(ctx, text, nil, &out, nil)
		cancel()
		seconds, bad := strconv.ParseFloat(strings.TrimSpace(out.String()), 64)
		if err == nil && bad == nil && seconds >= 0 && seconds < mostNotice.Seconds() {
			n.noticed(now().Add(time.Duration(seconds * float64(time.Second))))
			return
		}
	}
}

// watchNotices asks the provider, for all spot nodes at once, whether it will take
// any of them back.
func (p *pool) watchNotices() {
	for sleep(p.ctx, describeEvery) {
		spot := map[string]*poolNode{}
		p.mu.Lock()
		for _, n := range p.nodes {
			if reached := n.state >= NodeBootstrapping && !n.state.over(); reached && n.inst.Offer.Spot && n.taken.IsZero() {
				spot[n.inst.ID] = n
			}
		}
		p.mu.Unlock()
		if len(spot) == 0 {
			continue
		}
		ids := make([]string, 0, len(spot))
		for id := range spot {
			ids = append(ids, id)
		}
		found, err := p.driver.Describe(p.ctx, ids...)
		if err != nil {
			continue // it is asked again
		}
		for _, inst := range found {
			if n := spot[inst.ID]; n != nil && !inst.PreemptAt.IsZero() {
				n.noticed(inst.PreemptAt)
			}
		}
	}
}

// noticed is told, once, when the node's provider will take it back: it takes no
// further tasks, and runs what the spec has for this.
func (n *poolNode) noticed(at time.Time) {
	n.p.mu.Lock()
	if !n.taken.IsZero() || n.state.over() {
		n.p.mu.Unlock()
		return
	}
	n.taken = at
	n.p.tasks.update(n)
	n.p.mu.Unlock()
	left := max(at.Sub(now()), 0)
	n.p.events.emit(Event{Kind: EventPreemption, Node: n.rank(), State: "notice", Elapsed: left})
	if text := n.p.spec.OnPreemption; text != "" && left > 0 {
		n.p.lives.Go(func() { n.onPreemption(text, left) })
	}
}

// spared has a node take tasks again that its provider has not taken back after all.
func (n *poolNode) spared() {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	if n.taken.IsZero() || now().Sub(n.taken) < unreachableTimeout {
		return
	}
	n.taken = time.Time{}
	n.p.tasks.update(n)
	n.p.events.emit(Event{Kind: EventPreemption, Node: n.rank(), State: "spared"})
	n.p.fillLocked(n)
}

func (n *poolNode) onPreemption(text string, left time.Duration) {
	stdout, stderr := n.p.out.writers("node " + strconv.Itoa(n.rank()) + " preemption")
	exit, err := n.super.Run(n.ctx, supervisor.Spec{
		ID: "preemption-" + strconv.FormatInt(n.p.taskSeq.Add(1), 10), Script: text, Timeout: left, Grace: time.Second,
		Env: map[string]string{"GPUTRAIN_SECONDS": strconv.Itoa(int(left.Seconds()))},
	}, supervisor.Sinks{Stdout: stdout, Stderr: stderr, Live: n.p.out.live()})
	stdout.flush()
	stderr.flush()
	ev := Event{Kind: EventPreemption, Node: n.rank(), State: "done", Elapsed: exit.Elapsed}
	if err == nil && (exit.Cause != supervisor.Exited || exit.Code != 0) {
		err = &Error{Provider: n.provider(), Op: "OnPreemption on " + n.name, Err: fmt.Errorf("%v, with code %d", exit.Cause, exit.Code)}
	}
	if err != nil {
		ev.State, ev.Err = "failed", n.p.withoutSecrets(err)
	}
	n.p.events.emit(ev)
}
