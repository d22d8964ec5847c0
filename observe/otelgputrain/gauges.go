package otelgputrain

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gputrain/gputrain/observe"
)

// gauges are the instruments that observe the newest Run.
type gauges struct {
	src                 source
	nodes, slots, tasks metric.Int64ObservableUpDownCounter
	cost                metric.Float64ObservableCounter
	rate, atMost        metric.Float64ObservableGauge
	utilization         metric.Float64ObservableGauge
	memory, memoryLimit metric.Int64ObservableUpDownCounter

	mu    sync.Mutex
	spent float64 // the most that was observed: a counter does not fall
}

// observeRun has a meter observe what is known now.
func observeRun(meter metric.Meter, src source) (metric.Registration, error) {
	g := &gauges{src: src}
	var errs []error
	upDown := func(name, unit, what string) metric.Int64ObservableUpDownCounter {
		c, err := meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	gauge := func(name, unit, what string) metric.Float64ObservableGauge {
		c, err := meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	g.nodes = upDown("gputrain.nodes", "{node}", "Nodes that are not gone, by state")
	g.slots = upDown("gputrain.slots", "{slot}", "Slots of ready nodes, by use")
	g.tasks = upDown("gputrain.tasks", "{task}", "Tasks that wait or run")
	g.rate = gauge("gputrain.cost.rate", "{USD}/h", "What the pools cost per hour now")
	g.atMost = gauge("gputrain.cost.at_most", "{USD}", "What the pools cost at most if this program dies now")
	g.utilization = gauge("hw.gpu.utilization", "1", "Fraction of time the GPU spent in a specific task.")
	g.memory = upDown("hw.gpu.memory.usage", "By", "GPU memory used.")
	g.memoryLimit = upDown("hw.gpu.memory.limit", "By", "Size of the GPU memory.")
	var err error
	g.cost, err = meter.Float64ObservableCounter("gputrain.cost", metric.WithUnit("{USD}"), metric.WithDescription("What the pools have cost"))
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(g.observe, g.nodes, g.slots, g.tasks, g.cost, g.rate, g.atMost, g.utilization, g.memory, g.memoryLimit)
}

func (g *gauges) observe(_ context.Context, o metric.Observer) error {
	run := g.src.Run()
	with := func(key, value string) metric.ObserveOption {
		return metric.WithAttributes(attribute.String(key, value))
	}
	o.ObserveInt64(g.slots, int64(run.Counts.Busy), with(keyUse, "busy"))
	o.ObserveInt64(g.slots, int64(max(run.Counts.Slots-run.Counts.Busy, 0)), with(keyUse, "free"))
	o.ObserveInt64(g.tasks, int64(run.Counts.Waiting), with(keyState, "waiting"))
	o.ObserveInt64(g.tasks, int64(run.Counts.Running), with(keyState, "running"))

	g.mu.Lock()
	g.spent = max(g.spent, run.SpentUSD)
	o.ObserveFloat64(g.cost, g.spent)
	g.mu.Unlock()
	o.ObserveFloat64(g.rate, run.HourlyUSD)
	if run.Bounded {
		o.ObserveFloat64(g.atMost, run.AtMostUSD)
	}
	g.observeNodes(run, o)
	return nil
}

// A device is what is known of the accelerators of one index, on nodes that agree in all attributes.
type device struct {
	utilization, sampled float64 // its sum, and how many there are
	memory, limit        int64
	hasMemory            bool
}

func (g *gauges) observeNodes(run observe.Run, o metric.Observer) {
	markets := map[kindOfMachine]string{}
	for _, offer := range run.Offers {
		if offer.State == "taken" {
			markets[kindOfMachine{offer.Pool, offer.Provider, offer.Region, offer.InstanceType}] = marketOf(offer.Spot)
		}
	}
	states, devices := map[attribute.Set]int64{}, map[attribute.Set]*device{}
	for _, n := range run.Nodes {
		if !n.Gone.IsZero() || isOver(n.State) {
			continue
		}
		var place attrs
		place.place(n.Node, markets[kindOf(n.Pool, n.Node)])
		states[attribute.NewSet(append(place[:len(place):len(place)], attr(keyState, n.State))...)]++
		for i, sample := range n.Usage {
			set := attribute.NewSet(append(place[:len(place):len(place)], attribute.String(keyHardware, strconv.Itoa(i)))...)
			d := devices[set]
			if d == nil {
				d = &device{}
				devices[set] = d
			}
			if u := sample.Utilization; u >= 0 && !math.IsInf(u, 0) { // not NaN
				d.utilization += min(u/100, 1)
				d.sampled++
			}
			if used, limit := bytesOf(sample.MemoryGiB), bytesOf(sample.MemoryTotalGiB); used >= 0 && limit >= 0 {
				d.memory, d.limit, d.hasMemory = d.memory+used, d.limit+limit, true
			}
		}
	}
	for set, count := range states {
		o.ObserveInt64(g.nodes, count, metric.WithAttributeSet(set))
	}
	for set, d := range devices {
		if d.sampled > 0 {
			o.ObserveFloat64(g.utilization, d.utilization/d.sampled, metric.WithAttributeSet(set))
		}
		if d.hasMemory {
			o.ObserveInt64(g.memory, d.memory, metric.WithAttributeSet(set))
			o.ObserveInt64(g.memoryLimit, d.limit, metric.WithAttributeSet(set))
		}
	}
}

// bytesOf returns an amount of memory in bytes, or -1 if it is not known, or no amount of memory.
func bytesOf(gib float64) int64 {
	if !(gib >= 0 && gib < 1<<30) {
		return -1
	}
	return int64(gib * (1 << 30))
}
