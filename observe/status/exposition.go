package status

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/observe"
)

// writeMetrics answers with the metrics as Prometheus reads them.
func (h *handler) writeMetrics(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if q.Method == http.MethodHead {
		return
	}
	r := h.feed.source.Run()
	var text strings.Builder
	h.metrics.mu.Lock()
	h.metrics.take(r)
	exposition{bufio.NewWriter(&text)}.all(r, h.metrics)
	h.metrics.mu.Unlock()
	io.WriteString(h.writer(w), text.String())
}

// An exposition writes the text format of Prometheus.
type exposition struct{ *bufio.Writer }

func (e exposition) all(r observe.Run, m *metrics) {
	c := r.Counts
	e.family("gputrain_nodes", "gauge", "Nodes that are not gone, by state.", nodesByState(r))
	e.family("gputrain_slots", "gauge", "Slots of ready nodes.", map[labels]float64{{use: "busy"}: float64(c.Busy), {use: "free"}: float64(c.Slots - c.Busy)})
	e.family("gputrain_tasks", "gauge", "Tasks that wait and run.", map[labels]float64{{state: "waiting"}: float64(c.Waiting), {state: "running"}: float64(c.Running)})
	e.family("gputrain_task_ended_total", "counter", "Tasks that have ended.", m.ended)
	e.family("gputrain_task_retries_total", "counter", "Attempts that were followed by another one.", single(float64(m.retries)))
	e.family("gputrain_node_lost_total", "counter", "Nodes that were lost.", m.losses)
	e.histograms("gputrain_task_duration_seconds", "Time of the last attempt at a task.", m.durations)
	e.histograms("gputrain_task_wait_seconds", "Time until the first attempt at a task.", m.waits)
	e.histograms("gputrain_phase_duration_seconds", "Time of a phase of a bootstrap.", m.setups)
	e.histograms("gputrain_node_ready_duration_seconds", "Time from the launch of a node until it was ready.", m.readiness)
	e.family("gputrain_cost_total", "counter", "Estimated cost so far, in US dollars.", single(m.usd))
	e.family("gputrain_cost_rate_per_hour", "gauge", "Estimated cost of an hour, in US dollars.", single(r.HourlyUSD))
	if r.Bounded {
		e.family("gputrain_cost_at_most", "gauge", "Most that it costs if this program ends now, in US dollars. Missing while it is unbounded.", single(r.AtMostUSD))
	}
	e.family("gputrain_transfer_io_bytes_total", "counter", "Bytes that were sent and received.", m.sent)
	d := devicesOf(r)
	e.family("hw_gpu_utilization_ratio", "gauge", "Utilization of accelerators by their index on the node, the mean of all nodes.", d.utilization)
	e.family("hw_gpu_memory_usage_bytes", "gauge", "Memory in use of accelerators by their index on the node, the sum of all nodes.", d.used)
	e.family("hw_gpu_memory_limit_bytes", "gauge", "Memory of accelerators by their index on the node, the sum of all nodes.", d.limit)
	e.Flush()
}

func single(v float64) map[labels]float64 { return map[labels]float64{{}: v} }

func nodesByState(r observe.Run) map[labels]float64 {
	all := map[labels]float64{}
	for _, n := range r.Nodes {
		if n.Gone.IsZero() {
			l := labelsOf(n)
			l.state = line(n.State)
			all[l]++
		}
	}
	return all
}

// devices are the samples of accelerators by their index on the node: the nodes have no label of their own.
type devices struct{ utilization, used, limit map[labels]float64 }

func devicesOf(r observe.Run) devices {
	const bytes = 1 << 30 // of a GiB
	d := devices{map[labels]float64{}, map[labels]float64{}, map[labels]float64{}}
	count := map[labels]float64{}
	for _, n := range r.Nodes {
		if !n.Gone.IsZero() {
			continue
		}
		for i, s := range n.Usage {
			l := labelsOf(n)
			l.device = strconv.Itoa(i)
			if isFinite(s.Utilization) {
				d.utilization[l] += s.Utilization / 100
				count[l]++
			}
			if isFinite(s.MemoryGiB) {
				d.used[l] += s.MemoryGiB * bytes
			}
			if isFinite(s.MemoryTotalGiB) {
				d.limit[l] += s.MemoryTotalGiB * bytes
			}
		}
	}
	for l, n := range count {
		d.utilization[l] /= n
	}
	return d
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// family writes all series of a name. It writes nothing if there is none.
func (e exposition) family(name, kind, help string, all map[labels]float64) {
	if len(all) == 0 {
		return
	}
	e.head(name, kind, help)
	for _, l := range sortedLabels(all) {
		e.sample(name, l, "", all[l])
	}
}

func (e exposition) histograms(name, help string, all map[labels]*histogram) {
	if len(all) == 0 {
		return
	}
	e.head(name, "histogram", help)
	for _, l := range sortedLabels(all) {
		h := all[l]
		for i, bound := range bounds {
			e.sample(name+"_bucket", l, strconv.FormatFloat(bound, 'g', -1, 64), float64(h.counts[i]))
		}
		e.sample(name+"_bucket", l, "+Inf", float64(h.count))
		e.sample(name+"_sum", l, "", h.sum)
		e.sample(name+"_count", l, "", float64(h.count))
	}
}

func (e exposition) head(name, kind, help string) {
	fmt.Fprintf(e, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// sample writes one number. The names of labels are those of package otelgputrain as Prometheus spells them. le is the bound of a histogram's bucket, or "".
func (e exposition) sample(name string, l labels, le string, v float64) {
	e.WriteString(name)
	open := "{"
	for _, pair := range [...][2]string{
		{"cloud_provider", l.provider}, {"cloud_region", l.region}, {"host_type", l.instanceType}, {"gputrain_market", l.market}, {"gputrain_state", l.state},
		{"gputrain_task_cause", l.cause}, {"gputrain_phase", l.phase}, {"gputrain_slot_use", l.use}, {"network_io_direction", l.direction}, {"hw_id", l.device}, {"le", le},
	} {
		if pair[1] != "" {
			e.WriteString(open + pair[0] + `="` + escaped.Replace(pair[1]) + `"`)
			open = ","
		}
	}
	if open == "," {
		e.WriteByte('}')
	}
	e.WriteString(" " + strconv.FormatFloat(v, 'g', -1, 64) + "\n")
}

// escaped escapes the value of a label.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
