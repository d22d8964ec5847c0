package status

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/internal/runjson"
)

func written(t *testing.T, r observe.Run, p part) []byte {
	t.Helper()
	var text bytes.Buffer
	out := bufio.NewWriter(&text)
	if err := writeRun(out, r, p); err != nil {
		t.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// The names of run.json stay.
func TestNamesOfRunJSON(t *testing.T) {
	at := began.Add(time.Hour)
	r := starting(aRun(1, 4, at))
	r.Nodes[0].Load = []observe.Load{{At: at, Accelerators: 40, CPU: -1}}
	r.Nodes[0].BusyTime = 90 * time.Second
	r.Groups = []observe.Group{{Pool: "p", Name: "trial", Done: 2, Time: time.Minute}}
	r.Failures = []observe.Failure{{Seq: 7, At: at, Kind: "task", Rank: -1, Tail: "tail", Stack: "stack", Err: "no"}}
	var all map[string]any
	if err := json.Unmarshal(written(t, r, part{}), &all); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"version": 1.0, "seq": 1000.0, "began": "2026-11-27T03:00:00Z", "at": "2026-11-27T04:00:00Z", "spentUSD": 3.217, "bounded": true, "atMostUSD": 4.05, "counts.ready": 1.0, "counts.slots": 2.0,
		"pools.0.id": "digits-k3f9", "pools.0.accelerator": "L4", "pools.0.spec.accelerator.name": "L4", "pools.0.spec.concurrency": 2.0, "pools.0.cost.usd": 3.217, "pools.0.readyAt": "2026-11-27T03:49:00Z", "pools.0.closed": nil,
		"nodes.0.key": "digits-k3f9/0", "nodes.0.hourlyUSD": 0.71, "nodes.0.spentUSD": 0.16, "nodes.0.priceKnown": true, "nodes.0.busySeconds": 90.0, "nodes.0.usage.0.clockMHz": nil,
		"nodes.0.usage.0.uncorrected": nil, "nodes.0.usage.0.utilization": 40.0, "nodes.0.host.cpu": 37.0, "nodes.0.load.0.accelerators": 40.0, "nodes.0.load.0.cpu": nil,
		"tasks.0.id": "t00000", "tasks.0.elapsedSeconds": 80.0, "tasks.0.step.of": 100.0, "tasks.2.stepAt": "2026-11-27T03:59:59Z", "tasks.2.stepsPerSecond": 0.8, "tasks.0.lines.0.time": "2026-11-27T04:00:00Z", "tasks.0.step.values.accuracy": nil, "tasks.0.step.values.loss": 0.4312, "tasks.0.lines.1.stderr": true,
		"tasks.0.attempts.0.number": 1.0, "tasks.2.state": "started", "tasks.2.eta": "2026-11-27T04:01:36.5Z", "groups.0.seconds": 60.0,
		"phases.1.progress.total": 88.0, "phases.1.lines.0.text": "Setting up libc6", "transfers.0.bytes": float64(311 << 20), "failures.0.tail": "tail", "failures.0.stack": "stack",
		"offers.0.state": "refused", "offers.0.spot": true,
	} {
		if got := valueAt(all, path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	summary := string(written(t, r, part{summary: true}))
	for _, left := range []string{`"lines"`, `"attempts":[`, `"stack"`, `"tail"`, `"load"`, `"busySeconds"`, `"eta"`} {
		if strings.Contains(summary, left) {
			t.Errorf("a summary has %s", left)
		}
	}
}

// valueAt returns the value at a path of names and indexes, or nil.
func valueAt(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch of := v.(type) {
		case map[string]any:
			v = of[name]
		case []any:
			i := int(name[0] - '0')
			if i >= len(of) {
				return nil
			}
			v = of[i]
		default:
			return nil
		}
	}
	return v
}

// All of run.json is what package report writes too.
func TestRunJSONIsTheWholeRun(t *testing.T) {
	r := hostileRun(began.Add(time.Hour))
	want, err := json.Marshal(runjson.Of(r))
	if err != nil {
		t.Fatal(err)
	}
	var got, all map[string]any
	if err := errors.Join(json.Unmarshal(written(t, r, part{}), &got), json.Unmarshal(want, &all)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, all) {
		t.Errorf("it is\n%v, want\n%v", got, all)
	}
}

func TestOddNumbersAndTimesInRunJSON(t *testing.T) {
	r := observe.Run{SpentUSD: math.NaN(), HourlyUSD: math.Inf(1), At: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)}
	r.Tasks = []observe.Task{{State: "started", StepAt: began, PerSecond: math.Inf(1), Step: gputrain.Step{N: 1, Of: 3}, Queued: time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)}}
	if !json.Valid(written(t, r, part{})) {
		t.Error("odd numbers and times make it no JSON")
	}
	if got := string(written(t, observe.Run{AtMostUSD: 3}, part{})); !strings.Contains(got, `"atMostUSD":null`) || !strings.Contains(got, `"tasks":[]`) {
		t.Errorf("an unbounded Run without parts is %s", got)
	}
}

const hostile = "</script><img src=x onerror=alert(1)>\x1b[31m\x00\u202e\xff\"\\\n# HELP"

// hostileRun has the text of an attacker in each of its texts.
func hostileRun(at time.Time) observe.Run {
	r := starting(aRun(1, 4, at))
	p := &r.Pools[0]
	p.ID, p.State, p.Waiting, p.Err = hostile, hostile, hostile, hostile
	for i := range r.Nodes {
		n := &r.Nodes[i]
		n.Pool, n.Key, n.State, n.Err, n.ID, n.Name, n.Provider, n.Region, n.InstanceType, n.PublicAddr, n.Phase = hostile, n.Key+hostile, hostile, hostile, hostile, hostile, hostile, hostile, hostile, hostile, hostile
		n.Usage = []gputrain.AcceleratorSample{{Device: hostile, Slowed: hostile, Utilization: 3}}
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		t.Pool, t.ID, t.Name, t.Node, t.Err, t.Cause = hostile, t.ID+hostile, hostile, hostile, hostile, hostile
		t.Step.Values = map[string]float64{hostile: 1}
		t.Lines = []gputrain.Line{{Text: hostile}}
	}
	r.Tasks[0].State = "failed"
	for i := range r.Phases {
		r.Phases[i].Name, r.Phases[i].Node, r.Phases[i].Err, r.Phases[i].Progress.What = hostile, hostile, hostile, hostile
	}
	r.Transfers[0].What, r.Transfers[0].Err = hostile, hostile
	for i := range r.Offers {
		r.Offers[i].Provider, r.Offers[i].InstanceType, r.Offers[i].Region, r.Offers[i].Err = hostile, hostile, hostile, hostile
	}
	r.Failures = []observe.Failure{{Seq: 3, At: at, Kind: hostile, Pool: hostile, Task: r.Tasks[0].ID, Name: hostile, Phase: hostile, Cause: hostile, Err: hostile, Tail: hostile, Stack: hostile}}
	return r
}

func TestHostileTextsInRunJSON(t *testing.T) {
	text := written(t, hostileRun(began.Add(time.Hour)), part{})
	if i := bytes.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '\u202e' || r == '<' || r == '>' }); i >= 0 {
		t.Errorf("it has %q", text[max(i-40, 0):min(i+40, len(text))])
	}
	var all any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	var check func(v any)
	check = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, of := range v {
				check(name)
				check(of)
			}
		case []any:
			for _, of := range v {
				check(of)
			}
		case string:
			if strings.ContainsFunc(v, func(r rune) bool {
				return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
			}) {
				t.Errorf("it has %q", v)
			}
		}
	}
	check(all)
}

func TestSizeOfALargeRun(t *testing.T) {
	r := aRun(500, 10_000, began.Add(time.Hour))
	for what, p := range map[string]part{"the whole": {}, "a summary": {summary: true}} {
		text := written(t, r, p)
		t.Logf("%s of 500 nodes and 10 000 tasks has %d KiB", what, len(text)>>10)
		if len(text) > 8<<20 || !json.Valid(text) {
			t.Errorf("%s has %d bytes", what, len(text))
		}
	}
}
