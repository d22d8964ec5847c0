package otelgputrain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A point is one value of a metric: of a histogram, its count and sum.
type point struct {
	attributes attribute.Set
	value      float64
	count      uint64
}

// pointsOf returns the points of a metric, and its kind.
func pointsOf(t *testing.T, m metricdata.Metrics) (kind string, points []point) {
	t.Helper()
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			points = append(points, point{p.Attributes, float64(p.Value), 1})
		}
		return sumKind(d.IsMonotonic), points
	case metricdata.Sum[float64]:
		for _, p := range d.DataPoints {
			points = append(points, point{p.Attributes, p.Value, 1})
		}
		return sumKind(d.IsMonotonic), points
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			points = append(points, point{p.Attributes, p.Value, 1})
		}
		return "gauge", points
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			points = append(points, point{p.Attributes, p.Sum, p.Count})
		}
		return "histogram", points
	}
	t.Fatalf("%s is a %T", m.Name, m.Data)
	return "", nil
}

func sumKind(monotonic bool) string {
	if monotonic {
		return "counter"
	}
	return "up-down counter"
}

// texts returns all texts that were exported.
func (s *sink) texts(t *testing.T) (all []string) {
	t.Helper()
	add := func(kvs []attribute.KeyValue) {
		for _, kv := range kvs {
			all = append(all, string(kv.Key), kv.Value.String())
		}
	}
	for _, one := range s.spans.GetSpans() {
		all = append(all, one.Name, one.Status.Description)
		add(one.Attributes)
		for _, e := range one.Events {
			all = append(all, e.Name)
			add(e.Attributes)
		}
	}
	for name, m := range s.metrics(t) {
		all = append(all, name)
		_, points := pointsOf(t, m)
		for _, p := range points {
			add(p.attributes.ToSlice())
		}
	}
	for _, r := range s.records.all {
		all = append(all, r.EventName(), r.Body().String())
		r.WalkAttributes(func(kv attribute.KeyValue) bool {
			add([]attribute.KeyValue{kv})
			return true
		})
	}
	return all
}

// all are the sheet's metrics.
var all = []struct {
	name, kind, unit string
	total            float64 // the sum of all points in what play records
	count            uint64
}{
	{"gputrain.nodes", "up-down counter", "{node}", 2, 1},
	{"gputrain.slots", "up-down counter", "{slot}", 4, 2},
	{"gputrain.tasks", "up-down counter", "{task}", 5, 2},
	{"gputrain.task.ended", "counter", "{task}", 3, 3},
	{"gputrain.task.retries", "counter", "{retry}", 1, 1},
	{"gputrain.node.lost", "counter", "{node}", 1, 1},
	{"gputrain.task.duration", "histogram", "s", 3, 2},
	{"gputrain.task.wait", "histogram", "s", 1 + 9 + 12, 3},
	{"gputrain.phase.duration", "histogram", "s", 4.5, 5},
	{"gputrain.node.ready.duration", "histogram", "s", 5 + 5 + 1, 3},
	{"gputrain.cost", "counter", "{USD}", 42, 1},
	{"gputrain.cost.rate", "gauge", "{USD}/h", 7200, 1},
	{"gputrain.cost.at_most", "gauge", "{USD}", 50, 1},
	{"gputrain.transfer.io", "counter", "By", 108, 2},
	{"hw.gpu.utilization", "gauge", "1", 0.75, 1},
	{"hw.gpu.memory.usage", "up-down counter", "By", 3 << 30, 1},
	{"hw.gpu.memory.limit", "up-down counter", "By", 8 << 30, 1},
}

// played plays a pool, and returns the exporter, which has exported all of it.
func played(t *testing.T) (*recorded, *sink, *Exporter) {
	t.Helper()
	r, s := &recorded{}, newSink()
	play(r)
	e := start(r, s.Config)
	t.Cleanup(func() { e.Close() })
	for e.reached() < int64(len(r.all)) {
		<-tick()
	}
	return r, s, e
}

func TestMetrics(t *testing.T) {
	_, s, _ := played(t)
	got := s.metrics(t)
	for _, want := range all {
		m, ok := got[want.name]
		if !ok {
			t.Errorf("%s is missing", want.name)
			continue
		}
		delete(got, want.name)
		kind, points := pointsOf(t, m)
		total, count := 0.0, uint64(0)
		for _, p := range points {
			total += p.value
			count += p.count
		}
		if kind != want.kind || m.Unit != want.unit || total != want.total || count != want.count || m.Description == "" {
			t.Errorf("%s is a %s in %s, %v in %d: %q", want.name, kind, m.Unit, total, count, m.Description)
		}
	}
	for name := range got {
		t.Errorf("%s is not in the sheet", name)
	}
}

// Metrics have no attributes whose values grow with tasks or nodes.
func TestMetricsHaveNoIDs(t *testing.T) {
	_, s, _ := played(t)
	allowed := map[string]string{
		keyProvider: "acme", keyRegion: "mars", keyHostType: "big", keyMarket: "spot", keyUse: "busy free", keyDirection: "transmit receive",
		keyState: "waiting running ready done cached failed cancelled", keyCause: "exit node lost", keyPhase: "apt uv build for linux/arm64", keyHardware: "0",
	}
	seen := map[string]bool{}
	for name, m := range s.metrics(t) {
		_, points := pointsOf(t, m)
		for _, p := range points {
			for _, kv := range p.attributes.ToSlice() {
				key, value := string(kv.Key), kv.Value.String()
				if !strings.Contains(allowed[key], value) {
					t.Errorf("%s has the attribute %s=%s", name, key, value)
				}
				seen[key] = true
			}
		}
	}
	if len(seen) != len(allowed) {
		t.Errorf("only %v were seen", seen)
	}
}

// What has no bound is not exported, and a cost that falls is a counter all the same.
func TestCost(t *testing.T) {
	r, s, _ := played(t)
	s.metrics(t)
	r.mu.Lock()
	r.run.Bounded, r.run.SpentUSD = false, 41
	r.mu.Unlock()
	got := s.metrics(t)
	if _, ok := got["gputrain.cost.at_most"]; ok {
		t.Error("a cost without a bound was exported")
	}
	if _, points := pointsOf(t, got["gputrain.cost"]); fmt.Sprint(points[0].value) != "42" {
		t.Errorf("the cost has fallen to %v", points[0].value)
	}
}

// After Close nothing is observed any more.
func TestCloseEndsObservation(t *testing.T) {
	_, s, e := played(t)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.metrics(t)["gputrain.nodes"]; ok {
		t.Error("nodes are observed after Close")
	}
}

// failing is a provider that cannot send what it holds. It collects as a periodic reader does, before it fails.
type failing struct {
	metric.MeterProvider
	collect func()
	err     error
}

func (f *failing) ForceFlush(context.Context) error {
	f.collect()
	return f.err
}

// Close has the providers send what they hold, while nodes are still observed, and returns their errors.
func TestCloseFlushes(t *testing.T) {
	r, s := &recorded{}, newSink()
	play(r)
	var flushed map[string]metricdata.Metrics
	provider := &failing{MeterProvider: s.Meter, err: errors.New("no collector")}
	provider.collect = func() { flushed = s.metrics(t) }
	s.Meter = provider
	if err := start(r, s.Config).Close(); !errors.Is(err, provider.err) {
		t.Errorf("Close returned %v", err)
	}
	for _, name := range []string{"gputrain.nodes", "gputrain.task.ended"} {
		if _, ok := flushed[name]; !ok {
			t.Errorf("%s was not flushed", name)
		}
	}
}
