// Package collector tests that a real OpenTelemetry Collector understands what observe/otelgputrain exports. It is a module
// of its own: nothing else needs the collector.
package collector

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gputrain/gputrain/internal/test/ports"
)

// received holds what leaves a collector's pipelines.
type received struct {
	mu      sync.Mutex
	spans   []ptrace.Span
	metrics map[string]bool // the names of those with a value
	logs    []plog.LogRecord
	scopes  map[string]bool // the names of the exporting packages
}

// startCollector runs a collector with an OTLP receiver at an address of 127.0.0.1, until the test ends.
func startCollector(t *testing.T) (addr string, got *received) {
	t.Helper()
	got = &received{metrics: map[string]bool{}, scopes: map[string]bool{}}
	addr = ports.Free(t).String()
	config := fmt.Sprintf(`yaml:{receivers: {otlp: {protocols: {http: {endpoint: "%s"}}}}, exporters: {memory: {}}, service: {telemetry: {metrics: {level: none}}, pipelines: {`+
		`traces: {receivers: [otlp], exporters: [memory]}, metrics: {receivers: [otlp], exporters: [memory]}, logs: {receivers: [otlp], exporters: [memory]}}}}`, addr)
	c, err := otelcol.NewCollector(otelcol.CollectorSettings{
		Factories:               func() (otelcol.Factories, error) { return factories(got) },
		BuildInfo:               component.BuildInfo{Command: "collector"},
		DisableGracefulShutdown: true,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: []string{config}, ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
		LoggingOptions: []zap.Option{zap.IncreaseLevel(zapcore.WarnLevel)},
	})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- c.Run(context.Background()) }()
	t.Cleanup(func() {
		c.Shutdown()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	for until := time.Now().Add(time.Minute); c.GetState() != otelcol.StateRunning; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the collector is %v", c.GetState())
		}
	}
	return addr, got
}

func factories(got *received) (f otelcol.Factories, err error) {
	if f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return f, err
	}
	f.Telemetry = otelconftelemetry.NewFactory()
	f.Exporters, err = otelcol.MakeFactoryMap(memory(got))
	return f, err
}

// A sink is an exporter of a collector.
type sink struct {
	component.StartFunc
	component.ShutdownFunc
	consumer.ConsumeTracesFunc
	consumer.ConsumeMetricsFunc
	consumer.ConsumeLogsFunc
}

func (sink) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// memory returns an exporter that keeps what it is given.
func memory(got *received) exporter.Factory {
	s := sink{ConsumeTracesFunc: got.traces, ConsumeMetricsFunc: got.measures, ConsumeLogsFunc: got.records}
	const stable = component.StabilityLevelStable
	return exporter.NewFactory(component.MustNewType("memory"), func() component.Config { return &struct{}{} },
		exporter.WithTraces(func(context.Context, exporter.Settings, component.Config) (exporter.Traces, error) { return s, nil }, stable),
		exporter.WithMetrics(func(context.Context, exporter.Settings, component.Config) (exporter.Metrics, error) { return s, nil }, stable),
		exporter.WithLogs(func(context.Context, exporter.Settings, component.Config) (exporter.Logs, error) { return s, nil }, stable))
}

func (r *received) traces(_ context.Context, td ptrace.Traces) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range td.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			r.scopes["spans of "+scope.Scope().Name()] = true
			for _, span := range scope.Spans().All() {
				kept := ptrace.NewSpan()
				span.CopyTo(kept)
				r.spans = append(r.spans, kept)
			}
		}
	}
	return nil
}

func (r *received) measures(_ context.Context, md pmetric.Metrics) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range md.ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			r.scopes["metrics of "+scope.Scope().Name()] = true
			for _, m := range scope.Metrics().All() {
				r.metrics[m.Name()] = r.metrics[m.Name()] || md.DataPointCount() > 0
			}
		}
	}
	return nil
}

func (r *received) records(_ context.Context, ld plog.Logs) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range ld.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			r.scopes["logs of "+scope.Scope().Name()] = true
			for _, record := range scope.LogRecords().All() {
				kept := plog.NewLogRecord()
				record.CopyTo(kept)
				r.logs = append(r.logs, kept)
			}
		}
	}
	return nil
}
