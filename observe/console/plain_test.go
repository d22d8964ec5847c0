package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/local"
)

// A buffer can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// poolEvents are some of every kind, a second apart.
func poolEvents() []gputrain.Event {
	l4 := gputrain.Node{Rank: 3, ID: "i-3", Region: "europe-west4", HourlyUSD: driver.USD(0.71), Accelerator: accelerators.L4()}
	offer := &gputrain.Offer{InstanceType: "g2-standard-4", Region: "europe-west4", HourlyUSD: driver.USD(0.71)}
	events := []gputrain.Event{
		{Kind: gputrain.EventPool, State: "opening", Node: -1, Spec: &gputrain.Spec{Nodes: 4}},
		{Kind: gputrain.EventOffer, State: "trying", Node: -1, Offer: offer},
		{Kind: gputrain.EventOffer, State: "refused", Node: -1, Offer: offer, Err: errors.New("no\x1b[2J capacity\nthere")},
		{Kind: gputrain.EventWait, State: "capacity", Node: -1, Err: errors.New("no room")},
		{Kind: gputrain.EventWait, State: "capacity", Node: -1, Err: errors.New("no room")},
		{Kind: gputrain.EventNode, State: "launching", Node: 3},
		{Kind: gputrain.EventPhase, State: "started", Node: 3, Phase: "apt"},
		{Kind: gputrain.EventProgress, Node: 3, Phase: "apt"},
		{Kind: gputrain.EventPhase, State: "done", Node: 3, Phase: "apt", Elapsed: 12 * time.Second},
		{Kind: gputrain.EventPhase, State: "failed", Node: 3, Phase: "python", Elapsed: 2 * time.Second, Err: errors.New("exit 1")},
		{Kind: gputrain.EventNode, State: "ready", Node: 3, At: l4},
		{Kind: gputrain.EventPool, State: "ready", Node: -1},
		{Kind: gputrain.EventTransfer, State: "sending", Node: 3, Path: "data", Bytes: 1 << 20},
		{Kind: gputrain.EventTransfer, State: "sending", Node: 3, Path: "data", Bytes: 2 << 20},
		{Kind: gputrain.EventTransfer, State: "done", Node: 3, Path: "data", Bytes: 3 << 20, Elapsed: 2 * time.Second},
		{Kind: gputrain.EventTask, State: "queued", Node: -1, Task: "t1", Name: "train"},
		{Kind: gputrain.EventTask, State: "started", Node: 3, Task: "t1", Name: "train", Attempt: 1},
		{Kind: gputrain.EventStep, Node: 3, Task: "t1", Step: gputrain.Step{N: 1}},
		{Kind: gputrain.EventTask, State: "silent", Node: 3, Task: "t1", Name: "train", Elapsed: 5 * time.Minute},
		{Kind: gputrain.EventRetry, State: "", Node: 3, Task: "t1", Name: "train", Attempt: 1, Err: errors.New("node lost")},
		{Kind: gputrain.EventTask, State: "started", Node: 3, Task: "t1", Name: "train", Attempt: 2},
		{Kind: gputrain.EventTask, State: "done", Node: 3, Task: "t1", Name: "train", Attempt: 2, Elapsed: 12 * time.Second},
		{Kind: gputrain.EventTask, State: "failed", Node: 3, Task: "t2", Attempt: 1, Elapsed: 12 * time.Second, Err: errors.New("exit code 3")},
		{Kind: gputrain.EventTraining, State: "restarting", Node: -1, Name: "llm", Attempt: 2, Err: errors.New("node 3 was lost")},
		{Kind: gputrain.EventPreemption, State: "notice", Node: 3, Elapsed: 2 * time.Minute},
		{Kind: gputrain.EventUsage, State: "sample", Node: 3},
		{Kind: gputrain.EventUsage, State: "fault", Node: 3, Err: errors.New("Xid 79")},
		{Kind: gputrain.EventOmitted, Node: -1, Omitted: 5},
		{Kind: gputrain.EventTrouble, State: "ledger", Node: -1, Err: errors.New("disk full")},
		{Kind: gputrain.EventCost, Node: -1, Cost: &gputrain.Cost{USD: 1}},
		{Kind: gputrain.EventNode, State: "lost", Node: 3, Err: errors.New("preempted")},
		{Kind: gputrain.EventPool, State: "closed", Node: -1, Cost: &gputrain.Cost{USD: 0.31}},
	}
	for i := range events {
		events[i].Pool, events[i].Time = "digits", now.Local().Add(time.Duration(i)*time.Second)
	}
	return events
}

// Each change of a state is a line with its time, of words that stay.
func TestLines(t *testing.T) {
	want := `pool digits opening (4 nodes)
offer g2-standard-4 europe-west4 $0.71/h trying
offer g2-standard-4 europe-west4 $0.71/h refused: no capacity there
waiting capacity: no room
node 3 launching
node 3 phase apt started
node 3 phase apt done after 12s
node 3 phase python failed after 2s: exit 1
node 3 ready after 5s (L4 europe-west4 $0.71/h)
pool digits ready after 11s
node 3 transfer data sending
node 3 transfer data done after 2s (3.0 MiB)
task t1 (train) started on node 3
task t1 (train) silent for 5m00s on node 3
task t1 (train) retrying after attempt 1: node lost
task t1 (train) started attempt 2 on node 3
task t1 (train) done on node 3 after 12s
task t2 failed on node 3 after 12s: exit code 3
training llm restarting attempt 2: node 3 was lost
node 3 preemption notice, 2m00s left
node 3 accelerators fault: Xid 79
5 events left out
trouble ledger: disk full
node 3 lost: preempted
pool digits closed after 31s, $0.31
`
	var w buffer
	events := poolEvents()
	synctest.Test(t, func(t *testing.T) {
		src := newFake(observe.Run{})
		v := begin(newPlain(src, &w).run)
		src.set(usual(), events...)
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	var got strings.Builder
	lines := strings.Split(strings.TrimSpace(w.String()), "\n")
	for _, l := range lines[:len(lines)-1] {
		at, text, _ := strings.Cut(l, " ")
		if _, err := time.Parse(time.TimeOnly, at); err != nil {
			t.Errorf("%q: %v", l, err)
		}
		got.WriteString(text + "\n")
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	if !strings.HasPrefix(lines[0], events[0].Time.Format(time.TimeOnly)) {
		t.Errorf("the first line is %q", lines[0])
	}
	if last := lines[len(lines)-1]; !strings.HasSuffix(last, " gputrain: 6 nodes, 12/18 tasks done, 1 failed, 5 not finished, 12m00s, $0.31") {
		t.Errorf("the last line is %q", last)
	}
}

// With two pools, lines say which one they are about.
func TestLinesOfSeveralPools(t *testing.T) {
	var c changes
	ev := gputrain.Event{Kind: gputrain.EventNode, Pool: "a", State: "launching"}
	for i, want := range []string{"node 0 launching", "b node 0 launching", "a node 0 launching"} {
		ev.Pool = []string{"a", "b", "a"}[i]
		if got := c.lines(&ev)[0].text; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Every 30 seconds a line sums up, while anything runs.
func TestSummaryLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w buffer
		src := newFake(usual())
		v := begin(newPlain(src, &w).run)
		time.Sleep(95 * time.Second)
		synctest.Wait()
		want := "summary: nodes 3 ready, 2 starting, 1 failed; 12/18 tasks done, 3 running, 2 waiting, 1 failed; 1.3 tasks/min; ETA 3m51s; $2.84/h; " +
			"$0.31 of $5.00 spent; at most $0.71 if this program dies now; waiting capacity: no room for L4 in europe-west4\n"
		if got := strings.Count(w.String(), want); got != 3 {
			t.Errorf("%d summaries in 95 s, want 3:\n%s", got, w.String())
		}
		idle := usual()
		idle.Counts.Running, idle.Counts.Waiting, idle.Phases, idle.Transfers, idle.Pools[0].Waiting = 0, 0, nil, nil, ""
		idle.Nodes = idle.Nodes[:3]
		src.set(idle)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := strings.Count(w.String(), "summary"); got != 3 {
			t.Errorf("%d summaries while nothing runs", got-3)
		}
		v.Close()
	})
}

// Lines that come by the thousand are counted. Failures are not among them.
func TestManyLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w buffer
		src := newFake(observe.Run{})
		v := begin(newPlain(src, &w).run)
		var events []gputrain.Event
		for i := range 3000 {
			ev := gputrain.Event{Kind: gputrain.EventTask, Pool: "p", State: []string{"started", "done", "failed"}[i%3], Task: fmt.Sprint("t", i/3), Time: time.Now()}
			if ev.State == "failed" {
				ev.Err = errors.New("exit code 1")
			}
			events = append(events, ev)
		}
		src.set(usual(), events...)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		got := w.String()
		if n := strings.Count(got, "failed on node"); n != 1000 {
			t.Errorf("%d failures", n)
		}
		if n := strings.Count(got, "\n"); n != 1000+mostLines+1 {
			t.Errorf("%d lines", n)
		}
		if !strings.Contains(got, fmt.Sprintf("and %d more tasks started, %d more tasks done\n", 1000-mostLines/2, 1000-mostLines/2)) {
			t.Errorf("what was left out is not counted:\n%s", got[len(got)-300:])
		}
		v.Close()
	})
}

// What was recorded before Show is not written, and a recording that has ended does not end the View.
func TestPlainBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w buffer
		src := newFake(observe.Run{})
		events := poolEvents()
		src.set(usual(), events[:5]...)
		v := begin(newPlain(src, &w).run)
		src.set(usual(), events[5])
		src.end()
		v.Close()
		if got := w.String(); strings.Contains(got, "opening") || !strings.Contains(got, "node 3 launching") || strings.Count(got, "\n") != 2 {
			t.Errorf("%s", got)
		}
	})
}

// A View that has nothing to show, or nowhere to, does nothing.
func TestNothing(t *testing.T) {
	rec, err := observe.New(observe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	var none *View
	for _, v := range []*View{none, {}, Show(nil, os.Stderr), Show(rec, nil)} {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
	var w buffer
	v := begin(newPlain(rec, &w).run)
	if err := v.Close(); err != nil || w.String() != "" {
		t.Errorf("without a pool: %q, %v", w.String(), err)
	}
}

// A real pool, and a real recorder.
func TestPool(t *testing.T) {
	rec, err := observe.New(observe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	var w buffer
	v := begin(newPlain(rec, &w).run)
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{Nodes: 2}, gputrain.WithName("digits"), rec.Option())
	if err != nil {
		t.Fatal(err)
	}
	good, bad := gputrain.Script("true"), gputrain.Script("exit 3")
	good.Name, bad.Name = "good", "bad"
	pool.Gather(good, bad)
	pool.Close()
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`pool \S+ opening \(2 nodes\)`, `pool \S+ ready after \d+s`, `node 0 launching`, `node 1 ready after \d+s \(.*\)`,
		`task \S+ \(good\) started on node \d`, `task \S+ \(good\) done on node \d after \d+s`, `task \S+ \(bad\) failed on node \d after \d+s: .*3.*`,
		`node 0 terminated`, `pool \S+ closed after \d+s, \$0.00`, `gputrain: 2 nodes, 1/2 tasks done, 1 failed, \d+s, \$0.00`,
	} {
		if n := len(regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `+want+`$`).FindAllString(w.String(), -1)); n != 1 {
			t.Errorf("%d lines are %q", n, want)
		}
	}
	if t.Failed() {
		t.Logf("%s", w.String())
	}
}

// A node whose machine waits in a queue has a line for each new reason.
func TestQueuedMachine(t *testing.T) {
	var c changes
	var got []string
	for _, reason := range []string{"queued: Priority", "queued: Resources", "queued: Resources"} {
		for _, l := range c.lines(&gputrain.Event{Kind: gputrain.EventWait, State: "machine", Pool: "p", Node: 1, Err: errors.New(reason)}) {
			got = append(got, l.text)
		}
	}
	if want := []string{"node 1 waits: queued: Priority", "node 1 waits: queued: Resources"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
