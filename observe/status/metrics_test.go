package status

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gputrain/gputrain/observe"
)

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)+\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`([a-zA-Z0-9_]+)="((?:[^"\\]|\\.)*)"`)
)

// scrape returns the series of /metrics by their names and labels. It checks the format as Prometheus does.
func scrape(t *testing.T, h *handler) map[string]float64 {
	t.Helper()
	r, body := answer(t, h, "GET", "/metrics")
	if got := r.Header.Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("it is of type %q", got)
	}
	series, typed := map[string]float64{}, map[string]string{}
	for l := range strings.SplitSeq(strings.TrimSuffix(body, "\n"), "\n") {
		if f := strings.SplitN(l, " ", 4); len(f) == 4 && f[0] == "#" {
			if f[1] == "TYPE" {
				if typed[f[2]] != "" {
					t.Errorf("%s has two types", f[2])
				}
				typed[f[2]] = f[3]
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("this is no sample: %q", l)
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := series[m[1]+m[2]]; twice {
			t.Errorf("%s comes twice", m[1]+m[2])
		}
		series[m[1]+m[2]] = v
		name := m[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); typed[base] == "histogram" {
				name = base
			}
		}
		if typed[name] == "" {
			t.Errorf("%s has no type before it", m[1])
		}
		if typed[name] == "counter" != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, typed[name])
		}
	}
	return series
}

func TestMetrics(t *testing.T) {
	r := starting(aRun(2, 200, began.Add(time.Hour)))
	r.Nodes[3].State = "lost"
	r.Counts.Retries = 2
	r.Phases[0].State = "done"
	h := newHandler(newFake(r))
	got := scrape(t, h)
	const place = `cloud_provider="gcp",cloud_region="europe-west4",host_type="g2-standard-8"`
	for name, want := range map[string]float64{
		`gputrain_nodes{` + place + `,gputrain_state="ready"}`: 2, `gputrain_nodes{` + place + `,gputrain_state="bootstrapping"}`: 1,
		`gputrain_slots{gputrain_slot_use="busy"}`: 4, `gputrain_slots{gputrain_slot_use="free"}`: 0, `gputrain_tasks{gputrain_state="running"}`: 4, `gputrain_tasks{gputrain_state="waiting"}`: 96,
		`gputrain_task_ended_total{gputrain_state="done"}`: 99, `gputrain_task_ended_total{gputrain_state="failed",gputrain_task_cause="exit"}`: 1, `gputrain_task_retries_total`: 2,
		`gputrain_node_lost_total{` + place + `}`:                                                           1,
		`gputrain_task_duration_seconds_count{` + place + `,gputrain_state="done"}`:                         99,
		`gputrain_task_duration_seconds_bucket{` + place + `,gputrain_state="done",le="60"}`:                0,
		`gputrain_task_duration_seconds_bucket{` + place + `,gputrain_state="done",le="120"}`:               99,
		`gputrain_task_wait_seconds_sum{` + place + `}`:                                                     100 * 510,
		`gputrain_phase_duration_seconds_sum{` + place + `,gputrain_state="done",gputrain_phase="connect"}`: 2, `gputrain_node_ready_duration_seconds_count{` + place + `}`: 3,
		`gputrain_cost_total`: 3.217, `gputrain_cost_rate_per_hour`: 1.42, `gputrain_cost_at_most`: 4.05,
		`gputrain_transfer_io_bytes_total{` + place + `,network_io_direction="transmit"}`: 311 << 20,
		`hw_gpu_utilization_ratio{` + place + `,hw_id="0"}`:                               0.465, `hw_gpu_memory_usage_bytes{` + place + `,hw_id="0"}`: 2 * 11.2 * (1 << 30),
		`hw_gpu_memory_limit_bytes{` + place + `,hw_id="0"}`: 2 * 22.5 * (1 << 30),
	} {
		if v, ok := got[name]; !ok || math.Abs(v-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
		}
	}
	for name := range got {
		for _, pair := range labelPair.FindAllStringSubmatch(name, -1) {
			for _, id := range []string{"t0000", "digits", "i-000", "trial", "203.0"} {
				if strings.Contains(pair[2], id) {
					t.Errorf("%s has an ID", name)
				}
			}
		}
	}
}

// Counters do not fall when the Run forgets what has ended, and count nothing twice.
func TestCountersNeverFall(t *testing.T) {
	f := newFake(starting(aRun(2, 400, began.Add(time.Hour))))
	h := newHandler(f)
	before := scrape(t, h)
	counters := func(all map[string]float64) []string {
		var names []string
		for name := range all {
			if strings.Contains(name, "_total") || strings.Contains(name, "_bucket") || strings.Contains(name, "_count") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	compare := func(what string, now map[string]float64, equal bool) {
		t.Helper()
		for _, name := range counters(before) {
			if now[name] < before[name] || equal && now[name] != before[name] {
				t.Errorf("%s: %s goes from %v to %v", what, name, before[name], now[name])
			}
		}
		before = now
	}
	compare("nothing happens", scrape(t, h), true)
	f.change(func(r *observe.Run) { r.Tasks, r.Phases, r.Transfers = r.Tasks[200:], nil, nil })
	compare("all are forgotten", scrape(t, h), true)
	f.change(func(r *observe.Run) {
		for i := range 5 {
			r.Tasks = append(r.Tasks, observe.Task{Pool: "p", ID: fmt.Sprint("new", i), State: "failed", Cause: "panic", Ended: r.At, Started: r.At, Queued: r.At})
		}
		r.Counts.Failed += 7 // two of them were not kept
		r.SpentUSD -= 1
	})
	now := scrape(t, h)
	compare("tasks fail", now, false)
	if now[`gputrain_task_ended_total{gputrain_state="failed",gputrain_task_cause="panic"}`] != 5 || now[`gputrain_task_ended_total{gputrain_state="failed",gputrain_task_cause="unknown"}`] != 2 {
		t.Errorf("5 tasks that have panicked, and 2 that are not known, are %v and %v", now[`gputrain_task_ended_total{gputrain_state="failed",gputrain_task_cause="panic"}`], now[`gputrain_task_ended_total{gputrain_state="failed",gputrain_task_cause="unknown"}`])
	}
}

func TestMetricsOfNothing(t *testing.T) {
	got := scrape(t, newHandler(newFake(observe.Run{})))
	if _, there := got["gputrain_cost_at_most"]; there || got["gputrain_cost_total"] != 0 {
		t.Errorf("an unbounded Run of nothing has %v", got)
	}
}

func TestHostileTextsInMetrics(t *testing.T) {
	got := scrape(t, newHandler(newFake(hostileRun(began.Add(time.Hour)))))
	found := false
	for name := range got {
		if strings.ContainsAny(name, "\x1b\x00\u202e") || !utf8.ValidString(name) {
			t.Fatalf("it has %q", name)
		}
		found = found || strings.Contains(name, `onerror=alert(1)>�\"\\ # HELP"`)
	}
	if !found {
		t.Errorf("no label has what can be shown of the text: %v", got)
	}
}
