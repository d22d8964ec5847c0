package node

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// A spot node looks for a notice of preemption every noticeInterval, and its provider is
	// asked for one every describeInterval.
	noticeInterval, describeInterval = 5 * time.Second, 15 * time.Second
	// A notice that a node finds of an end that is noticeLimit away or later is ignored: clouds
	// announce it minutes before.
	noticeLimit = 24 * time.Hour
)

// preemptionWatch returns the text by which the machine looks for a notice, or "".
func (m *Machine) preemptionWatch() string {
	if !m.Instance().Offer.Spot {
		return ""
	}
	return m.scripts().PreemptionWatch
}

// watchNotice makes the node look for a notice until there is one.
func (n *Node) watchNotice(text string) {
	for retry.Sleep(n.ctx, noticeInterval) {
		if !n.IsUp() {
			continue
		}
		ctx, cancel := context.WithTimeout(n.ctx, noticeInterval)
		var out bounded.Buffer
		err := n.Client().Exec(ctx, text, nil, &out, nil)
		cancel()
		seconds, bad := strconv.ParseFloat(strings.TrimSpace(out.String()), 64)
		if err == nil && bad == nil && seconds >= 0 && seconds < noticeLimit.Seconds() {
			n.owner.Noticed(time.Now().Add(time.Duration(seconds * float64(time.Second))))
			return
		}
	}
}

// WatchNotices asks the driver until ctx ends, for all nodes at once, whether it will take any of them back, and
// notifies those. The function spot returns the nodes to ask about, by the IDs of their machines.
func WatchNotices(ctx context.Context, d driver.Driver, spot func() map[string]*Node) {
	for retry.Sleep(ctx, describeInterval) {
		nodes := spot()
		if len(nodes) == 0 {
			continue
		}
		ids := make([]string, 0, len(nodes))
		for id := range nodes {
			ids = append(ids, id)
		}
		found, err := d.Describe(ctx, ids...)
		if err != nil {
			continue // it is asked again
		}
		for _, inst := range found {
			if n := nodes[inst.ID]; n != nil && !inst.PreemptAt.IsZero() {
				n.owner.Noticed(inst.PreemptAt)
			}
		}
	}
}

// RunOnPreemption runs the settings' OnPreemption on the node, for as long as is left until the
// provider takes it back, and returns how long that took.
func (n *Node) RunOnPreemption(left time.Duration) (time.Duration, error) {
	out := n.settings.Output
	stdout, stderr := out.Lines(output.Source{Label: fmt.Sprintf("node %d preemption", n.owner.Rank()), Node: n.owner.Rank(), Phase: "preemption"})
	exit, err := n.Supervisor().Run(n.ctx, supervisor.Spec{
		ID:     fmt.Sprintf("preemption-%d-%d", n.settings.Generation, n.preemptions.Add(1)), // unlike any of an earlier program
		Script: n.settings.OnPreemption, Timeout: left, Grace: time.Second,
		Env: map[string]string{"GPUTRAIN_SECONDS": strconv.Itoa(int(left.Seconds()))},
	}, supervisor.Sinks{Stdout: stdout, Stderr: stderr, Live: out.Live()})
	stdout.Flush()
	stderr.Flush()
	if err == nil && (exit.Cause != supervisor.Exited || exit.Code != 0) {
		err = &driver.Error{Provider: n.Provider(), Op: "OnPreemption on " + n.Name(), Err: fmt.Errorf("%v, with code %d", exit.Cause, exit.Code)}
	}
	return exit.Elapsed, err
}
