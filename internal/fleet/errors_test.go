package fleet

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/providers/driver"
)

// If the nodes of a broadcast are lost before it is queued, the error names the broadcast's target.
func TestNoneReadyNamesTheTarget(t *testing.T) {
	tf := newTest(t, Config{Least: 4})
	members := tf.put(Ready, Connecting, Unreachable, Bootstrapping)
	tf.locked(func() {
		members[1].enter(Lost, &driver.Error{Op: "node p-1", Kind: driver.ErrNodeLost, Err: errors.New("it vanished")})
	})
	for _, tt := range []struct {
		target scheduler.Target
		kind   error
		want   string
	}{
		{scheduler.OnRank(1), driver.ErrNodeLost, "no node with rank 1 is left: node p-1: node lost: it vanished"},
		{scheduler.OnLabels(map[string]string{"zone": "b"}), driver.ErrNodeLost, "no node with zone=b is left: node p-1: node lost: it vanished"},
		{scheduler.OnRank(3), driver.ErrUnavailable, "no node is ready of those with rank 3: p-3 is bootstrapping"},
		{scheduler.OnLabels(map[string]string{"zone": "d"}), driver.ErrUnavailable, "no node is ready of those with zone=d: p-3 is bootstrapping"},
		{scheduler.OnRank(4), driver.ErrInvalid, "there is no rank 4"},
	} {
		tf.locked(func() {
			if err := tf.NoneReady(tt.target, 0); !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: %v", tt.target, err)
			}
		})
	}
}

// Members that are about to end, or to be taken back, take no part in a broadcast.
func TestParticipants(t *testing.T) {
	tf := newTest(t, Config{Least: 5})
	members := tf.put(Ready, Ready, Unreachable, Connecting, Ready)
	tf.locked(func() {
		members[1].leaves = true
		members[4].takenBack = members[4].readyAt
		got := tf.Participants(scheduler.Target{})
		if len(got) != 2 || got[0] != members[0] || got[1] != members[2] {
			t.Errorf("%d members", len(got))
		}
	})
}

func TestNoNodes(t *testing.T) {
	why := &driver.Error{Kind: driver.ErrBootstrap, Err: errors.New("no disk")}
	for _, tt := range []struct {
		name   string
		config Config
		make   func(*testFleet)
		want   error
	}{
		{"each error once", Config{Least: 2}, func(tf *testFleet) {
			for _, m := range tf.put(Connecting, Connecting) {
				m.fail(why)
			}
		}, driver.ErrBootstrap},
		{"a removed member's error", Config{Elastic: true, Most: 1}, func(tf *testFleet) {
			tf.put(Connecting)[0].fail(why)
			tf.locked(tf.scaler.trim)
		}, driver.ErrBootstrap},
		{"a lost member", Config{Least: 1}, func(tf *testFleet) { tf.put(Lost) }, driver.ErrNodeLost},
		{"an empty fleet", Config{Elastic: true, Most: 1}, func(*testFleet) {}, driver.ErrUnavailable},
		{"the end", Config{Least: 1}, func(tf *testFleet) { tf.locked(tf.Close) }, driver.ErrClosed},
		{"nothing known", Config{Least: 1}, func(*testFleet) {}, driver.ErrNoCapacity},
	} {
		tf := newTest(t, tt.config)
		tt.make(tf)
		tf.locked(func() {
			if err := tf.NoNodes(); !errors.Is(err, tt.want) || strings.Count(err.Error(), "no disk") > 1 {
				t.Errorf("%s: %v", tt.name, err)
			}
		})
	}
}
