package otelgputrain

import (
	"errors"
	"math"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/providers/driver"
)

// planted is in texts of nodes and of providers.
const planted = "\x1b[31m<b>boom</b>\x00\xff"

// play records a pool in which something of each kind happens: rank 0 has two machines, the task a has two attempts, b fails, c is
// cancelled, and d runs at the end of the pool.
func play(r *recorded) {
	at0, at1, at2 := machine(0, "i-0"), machine(1, "i-1"), machine(0, "i-2")
	usd := driver.USD
	r.add(0, gputrain.Event{Kind: gputrain.EventPool, State: "opening", Node: -1})
	r.add(0.5, gputrain.Event{Kind: gputrain.EventPhase, State: "started", Node: -1, Phase: "build for linux/arm64"})
	r.add(1, gputrain.Event{Kind: gputrain.EventPhase, State: "done", Node: -1, Phase: "build for linux/arm64", Elapsed: time.Second / 2})
	offer := &gputrain.Offer{Provider: "acme", Region: "mars", InstanceType: "big", Spot: true}
	r.add(1, gputrain.Event{Kind: gputrain.EventOffer, State: "taken", Node: -1, Offer: offer})
	for rank, at := range []gputrain.Node{at0, at1} {
		r.add(1, gputrain.Event{Kind: gputrain.EventNode, State: "launching", Node: rank})
		r.add(2, gputrain.Event{Kind: gputrain.EventNode, State: "bootstrapping", Node: rank, At: at})
		r.add(3, gputrain.Event{Kind: gputrain.EventPhase, State: "started", Phase: "apt", Node: rank, At: at})
		r.add(4, gputrain.Event{Kind: gputrain.EventProgress, Phase: "apt", Node: rank, At: at, Progress: gputrain.Progress{What: "install", Done: 1, Total: 2, Unit: "packages"}})
		r.add(5, gputrain.Event{Kind: gputrain.EventPhase, State: "done", Phase: "apt", Node: rank, At: at, Elapsed: 2 * time.Second})
		r.add(5, gputrain.Event{Kind: gputrain.EventPhase, State: "cached", Phase: "uv", Node: rank, At: at})
		r.add(6, gputrain.Event{Kind: gputrain.EventNode, State: "ready", Node: rank, At: at})
	}
	r.add(6, gputrain.Event{Kind: gputrain.EventPool, State: "ready", Node: -1})
	for _, id := range []string{"a", "b", "c", "d"} {
		r.add(7, gputrain.Event{Kind: gputrain.EventTask, State: "queued", Node: -1, Task: id, Name: "task " + id})
	}
	r.add(8, gputrain.Event{Kind: gputrain.EventTask, State: "started", Node: 0, At: at0, Task: "a", Name: "task a", Attempt: 1})
	r.add(8.5, gputrain.Event{Kind: gputrain.EventStep, Node: 0, At: at0, Task: "a", Name: "task a", Attempt: 1, Step: gputrain.Step{N: 1, Of: 3, Values: map[string]float64{"loss": math.NaN()}}})
	r.add(9, gputrain.Event{Kind: gputrain.EventPreemption, State: "notice", Node: 0, Elapsed: 30 * time.Second})
	r.add(10, gputrain.Event{Kind: gputrain.EventNode, State: "lost", Node: 0, At: at0, Err: &gputrain.Error{Provider: "acme", Op: "watch", Kind: gputrain.ErrPreempted, Err: errors.New(planted)}})
	r.add(10, gputrain.Event{Kind: gputrain.EventRetry, Node: 0, At: at0, Task: "a", Name: "task a", Attempt: 1, Elapsed: time.Second, Err: errors.New("lost"), Ended: &gputrain.AttemptEnd{Cause: gputrain.CauseNodeLost, ExitCode: -1, CostUSD: usd(2)}})
	r.add(11, gputrain.Event{Kind: gputrain.EventNode, State: "launching", Node: 0})
	r.add(12, gputrain.Event{Kind: gputrain.EventNode, State: "ready", Node: 0, At: at2})
	r.add(13, gputrain.Event{Kind: gputrain.EventTask, State: "started", Node: 0, At: at2, Task: "a", Name: "task a", Attempt: 2})
	r.add(14, gputrain.Event{Kind: gputrain.EventTransfer, State: "receiving", Node: 0, At: at2, Task: "a", Name: "task a", Attempt: 2, Bytes: 10, TotalBytes: 100, Elapsed: time.Second / 2})
	r.add(15, gputrain.Event{Kind: gputrain.EventTransfer, State: "done", Node: 0, At: at2, Task: "a", Name: "task a", Attempt: 2, Bytes: 100, TotalBytes: 100, Elapsed: 3 * time.Second / 2})
	r.add(15, gputrain.Event{Kind: gputrain.EventTask, State: "done", Node: 0, At: at2, Task: "a", Name: "task a", Attempt: 2, Elapsed: 2 * time.Second, Ended: &gputrain.AttemptEnd{CostUSD: usd(5)}})
	r.add(16, gputrain.Event{Kind: gputrain.EventTask, State: "started", Node: 1, At: at1, Task: "b", Name: "task b", Attempt: 1})
	r.add(17, gputrain.Event{Kind: gputrain.EventTask, State: "failed", Node: 1, At: at1, Task: "b", Name: "task b", Attempt: 1, Elapsed: time.Second, Err: errors.New(planted), Ended: &gputrain.AttemptEnd{Cause: gputrain.CauseExit, ExitCode: 3, CostUSD: usd(1)}})
	r.add(17, gputrain.Event{Kind: gputrain.EventTask, State: "cancelled", Node: -1, Task: "c", Name: "task c", Err: errors.New("cancelled")})
	r.add(18, gputrain.Event{Kind: gputrain.EventTransfer, State: "sending", Node: 1, At: at1, Path: "data", Bytes: 7, Elapsed: time.Second})
	r.add(19, gputrain.Event{Kind: gputrain.EventTransfer, State: "failed", Node: 1, At: at1, Path: "data", Bytes: 8, Elapsed: 2 * time.Second})
	r.add(19, gputrain.Event{Kind: gputrain.EventTask, State: "started", Node: 1, At: at1, Task: "d", Name: "task d", Attempt: 1})
	r.add(20, gputrain.Event{Kind: gputrain.EventUsage, State: "sample", Node: 1, At: at1})
	r.add(21, gputrain.Event{Kind: gputrain.EventNode, State: "terminated", Node: 0, At: at2})
	r.add(22, gputrain.Event{Kind: gputrain.EventPool, State: "closed", Node: -1, Cost: &gputrain.Cost{USD: 42}})

	r.run = observe.Run{
		Counts:   observe.Counts{Slots: 4, Busy: 1, Waiting: 2, Running: 3},
		SpentUSD: 42, HourlyUSD: 7200, AtMostUSD: 50, Bounded: true,
		Offers: []observe.Offer{{Pool: "pool-1", Provider: "acme", Region: "mars", InstanceType: "big", Spot: true, State: "taken"}},
		Nodes: []observe.Node{
			{Node: at2, Pool: "pool-1", Key: "pool-1/2", State: "ready", Usage: []gputrain.AcceleratorSample{{Device: "0000:3b:00.0", Utilization: 50, MemoryGiB: 1, MemoryTotalGiB: 4}}},
			{Node: at1, Pool: "pool-1", Key: "pool-1/1", State: "ready", Usage: []gputrain.AcceleratorSample{
				{Device: "0000:3b:00.0", Utilization: 100, MemoryGiB: 2, MemoryTotalGiB: 4},
				{Device: "0000:3c:00.0", Utilization: math.NaN(), MemoryGiB: math.NaN(), MemoryTotalGiB: math.NaN()},
			}},
			{Node: at0, Pool: "pool-1", Key: "pool-1/0", State: "lost", Gone: when(10), Usage: []gputrain.AcceleratorSample{{Utilization: 1}}},
		},
	}
}
