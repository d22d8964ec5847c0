package vastai

import (
	"net/http"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A write that reports neither success nor failure is not a success: the flag counts,
// not the status.
func TestSuccessFlagInside200(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]fakecloud.Answer{
		"false":          fakecloud.Failure(200, row{"success": false}, ""),
		"false, code":    fakecloud.Failure(200, row{"success": false, "error": "some_code", "msg": "some text"}, ""),
		"error alone":    fakecloud.Failure(200, row{"error": "some_code"}, ""),
		"empty object":   fakecloud.Failure(200, row{}, ""),
		"page of HTML":   fakecloud.HTML(),
		"nothing":        fakecloud.Empty(),
		"half an answer": fakecloud.Garbage(),
		"404 of another": fakecloud.Failure(404, "<html>", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t, nil)
			f.noMachines = true
			d := prepared(t, f)
			in := mustLaunch(t, d, gputrain.Spec{}, 0)
			f.Inject(fakecloud.Fault{Op: opDestroy, Answer: answer, Times: -1})
			err := d.Terminate(t.Context(), in.ID)
			if err == nil {
				t.Error("it counts as destroyed")
			}
			if got := cloudtest.Describe(t, d, in.ID); got.State != driver.InstanceRunning {
				t.Errorf("%+v", got)
			}
			f.Inject(fakecloud.Fault{Op: opManage, Answer: answer, Times: -1})
			if err := d.MarkLease(t.Context(), cloudtest.Info("p1"), time.Now(), in.ID); err == nil {
				t.Error("it counts as marked")
			}
			f.Inject(fakecloud.Fault{Op: opDelKey, Answer: answer, Times: -1})
			if err := d.Release(t.Context(), cloudtest.Info("p1")); err == nil {
				t.Error("it counts as released")
			}
		})
	}
}

// A list that is not valid in every respect is an error, never an empty list.
func TestEmptyListIsALie(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]fakecloud.Answer{
		"nothing":           fakecloud.Empty(),
		"HTML":              fakecloud.HTML(),
		"garbage":           fakecloud.Garbage(),
		"huge":              fakecloud.Huge(70 << 20),
		"no instances":      fakecloud.Failure(200, row{"success": true}, ""),
		"null":              fakecloud.Failure(200, row{"success": true, "instances": nil}, ""),
		"success is false":  fakecloud.Failure(200, row{"success": false, "instances": []row{}}, ""),
		"others are hidden": fakecloud.Failure(200, row{"success": true, "instances": []row{}, "total_instances": 3}, ""),
		"no id":             fakecloud.Failure(200, row{"success": true, "instances": []row{{}}}, ""),
		"one of them twice": fakecloud.Failure(200, row{"success": true, "instances": []row{{"id": 1}, {"id": 1}}, "total_instances": 2}, ""),
		"same page again":   fakecloud.Failure(200, row{"success": true, "instances": []row{{"id": 1}}, "next_token": "again"}, ""),
		"not found":         fakecloud.Failure(404, "", ""),
		"retired":           fakecloud.Failure(410, row{"success": false, "error": "deprecated_endpoint"}, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			d := f.open()
			f.Inject(fakecloud.Fault{Op: opList, Answer: answer, Times: -1})
			if got, err := d.List(t.Context(), ""); err == nil {
				t.Errorf("it is taken for %v", got)
			}
			if got, err := d.Describe(t.Context(), "17"); err == nil {
				t.Errorf("it is taken for %v", got)
			}
		})
	}
	for name, answer := range map[string]fakecloud.Answer{
		"no instances":  fakecloud.Failure(200, row{}, ""),
		"another one's": fakecloud.Failure(200, row{"instances": row{"id": 18}}, ""),
		"a list":        fakecloud.Failure(200, row{"instances": []row{}}, ""),
		"wrong key":     fakecloud.Failure(404, row{"error": "auth_error"}, ""),
		"no such page":  fakecloud.Failure(404, "<html>", ""),
	} {
		f := startFake(t)
		f.Inject(fakecloud.Fault{Op: opShow, Answer: answer, Times: -1})
		if got, err := f.open().Describe(t.Context(), "17"); err == nil {
			t.Errorf("%s is taken for %v", name, got)
		}
	}
	for _, answer := range []fakecloud.Answer{fakecloud.Failure(200, "null", ""), fakecloud.Empty(), fakecloud.Garbage(), fakecloud.Failure(404, "<html>", "")} {
		f := startFake(t)
		f.Inject(fakecloud.Fault{Op: opKeys, Answer: answer, Times: -1})
		if got, err := f.open().List(t.Context(), "p1"); err == nil {
			t.Errorf("keys: %v is taken for %v", answer, got)
		}
	}
}

// A call is repeated if that does no harm. After 429 the pause is twice the threshold
// in the text: there is no Retry-After.
func TestRateLimitIsInTheText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"API requests too frequent: endpoint threshold=4.5": "9",
		`{"detail":"endpoint threshold=0.3"}`:               "1",
		"API requests too frequent":                         "",
	} {
		p := pacer{answering(func() *http.Response {
			return &http.Response{StatusCode: 429, Header: http.Header{}, Body: http.NoBody}
		}, text)}
		resp, err := p.RoundTrip(nil)
		if err != nil || resp.Header.Get("Retry-After") != want {
			t.Errorf("%s: Retry-After %q, %v; want %q", text, resp.Header.Get("Retry-After"), err, want)
		}
		if body := read(t, resp); body != text {
			t.Errorf("the body has become %q", body)
		}
	}
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	text := "API requests too frequent: endpoint threshold=0.1"
	limited := fakecloud.Reply(429, text).With("Content-Type", "text/plain")
	for _, op := range []string{opCreate, opSearch, opList} {
		f.Inject(fakecloud.Fault{Op: op, Answer: limited})
	}
	f.Inject(fakecloud.Fault{Op: opDestroy, Answer: fakecloud.Failure(429, row{"detail": text}, "1")})
	f.Inject(fakecloud.Fault{Op: opKeys, Answer: fakecloud.Failure(503, "", "")})
	in := mustLaunch(t, d, gputrain.Spec{}, 0)
	if _, err := d.List(t.Context(), "p1"); err != nil {
		t.Error(err)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	if n := len(f.Records(opCreate)); n != 2 {
		t.Errorf("%d creates", n)
	}
	if live := f.live(); len(live) != 1 {
		t.Errorf("left: %v", live)
	}
}

// All drivers with the same key and address share one limiter. Others do not.
func TestLimitsAreOfOneKey(t *testing.T) {
	t.Parallel()
	first, again := limitsOf("a", "k"), limitsOf("a", "k")
	if first != again || first == limitsOf("a", "l") || first == limitsOf("b", "k") {
		t.Error("limits are not by address and key")
	}
}
