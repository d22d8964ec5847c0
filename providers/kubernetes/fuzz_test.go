package kubernetes

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// Whatever the API answers about a pod, it has a state, and nothing panics.
func FuzzPods(f *testing.F) {
	for _, p := range []pod{
		scheduled(), waitingFor("ErrImagePull", "x"), unscheduled("Unschedulable", "x"), runningPod("False", "", time.Hour),
		ending(time.Minute, "PreemptionByScheduler"), endedPod(143, "Error", "", "EvictionByEvictionAPI"),
	} {
		text, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte(`{"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}}`))
	}
	f.Add([]byte("{}"), []byte("null"))
	f.Fuzz(func(t *testing.T, podText, jobText []byte) {
		var p *pod
		var j *job
		if json.Unmarshal(podText, &p) != nil || json.Unmarshal(jobText, &j) != nil || p == nil && j == nil {
			return
		}
		if r := stateOf(j, p, noon); r.state == driver.InstanceUnknown && (p == nil || r.reason != p.Status.Phase) {
			t.Errorf("%+v", r)
		}
		if p != nil {
			_ = Config{}.complete().requestsOf(*p)
			_ = tagOf(p.Metadata)
		}
	})
}

// Amounts are never negative, nor more than can be counted.
func FuzzQuantity(f *testing.F) {
	for _, seed := range []string{"", "100m", "16Gi", "1e3", "-1", "1.5", "9999999999999999999999E", "0.000000001n", "x", "E700"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if q := quantity(text); !(q >= 0) || math.IsInf(q, 0) {
			t.Errorf("%q is %v", text, q)
		}
	})
}

// An affinity that is accepted can be combined with a place, and is still one.
func FuzzAffinity(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"nodeAffinity": {}}`, `{"podAffinity": 7}`, `{"nodeAffinity": null}`,
		`{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, {"matchFields": [{}]}]}}}`} {
		f.Add([]byte(seed))
	}
	at := place{terms: []term{{MatchExpressions: []expression{{"gpu", "Exists", nil}}}}}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := parseAffinity(text)
		if err != nil {
			return
		}
		_ = a.fits(map[string]string{"a": "b"})
		both, err := Config{Affinity: text}.affinity(at)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		got, err := parseAffinity(both)
		if err != nil || len(got.terms) != max(1, len(a.terms)) {
			t.Errorf("%q becomes %q: %v", text, both, err)
		}
	})
}

// Failures of the API have a kind, whatever their words.
func FuzzStatus(f *testing.F) {
	if text, err := os.ReadFile("testdata/golden/plain.json"); err == nil {
		f.Add(500, text)
	}
	f.Add(403, []byte(`{"kind": "Status", "status": "Failure", "message": "exceeded quota", "reason": "Forbidden", "code": 403}`))
	f.Add(404, []byte("<html>"))
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		fault := faultOf(code, body)
		if fault == nil {
			return
		}
		if code < 400 {
			t.Errorf("%d is no failure", code)
		}
		if _, kind := ofStatus("list", code, fault.Code, fault.Message); kind == nil && code >= 500 {
			t.Errorf("%d has no kind", code)
		}
	})
}
