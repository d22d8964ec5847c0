package runpod

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
)

func faultAnswer(op string, times, status int, body string) fakecloud.Fault {
	return fakecloud.Fault{Op: op, Times: times, Answer: fakecloud.Failure(status, body, "").With("Content-Type", "application/problem+json")}
}

// A pod whose create answer is lost is found and adopted. Its create is not repeated.
func TestLostAnswers(t *testing.T) {
	for _, spot := range []bool{false, true} {
		op, spec := opCreate, gputrain.Spec{Accelerator: accelerators.H100()}
		if spot {
			op, spec.Allocation = opSpot, driver.Spot
		}
		for name, fault := range map[string]fakecloud.Fault{
			"cut":     {After: true, Cut: true},
			"error":   {After: true, Answer: fakecloud.Failure(500, "", "")},
			"gateway": {After: true, Answer: fakecloud.Failure(504, "<html>", "")},
			"garbage": {After: true, Answer: fakecloud.Garbage()},
			"page":    {After: true, Answer: fakecloud.HTML()},
			"empty":   {After: true, Answer: fakecloud.Empty()},
			"no ID":   {After: true, Answer: fakecloud.Failure(201, `{"name":"x"}`, "")},
			"in part": {After: true, Answer: fakecloud.Failure(200, `{"errors":[{"message":"no machine"}],"data":{"podRentInterruptable":{"id":"x"}}}`, "")},
		} {
			f := startFake(t)
			d := open(t, f.config())
			fault.Op = op
			in := f.Inject(fault)
			got, err := d.Launch(t.Context(), request(t, d, spec, 2))
			if err != nil || len(got) != 2 || in.Hits() != 1 || len(f.live()) != 2 || len(f.Records(op)) != 2 {
				t.Errorf("spot %v, %s: %d calls, %v live, %v, %v", spot, name, len(f.Records(op)), f.live(), got, err)
			}
		}
	}
}

// A create that failed before it had an effect has an unknown outcome, and nothing is made.
func TestFailedBefore(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	req := request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 1)
	for _, fault := range []fakecloud.Fault{{Cut: true}, {Answer: fakecloud.Failure(503, "", "")}} {
		fault.Op = opCreate
		f.Inject(fault)
		got, err := d.Launch(t.Context(), req)
		wantKind(t, "before", err, driver.ErrUnavailable)
		if len(got) > 0 || len(f.live()) > 0 {
			t.Errorf("%v, %v", got, f.live())
		}
	}
	// If the list lags for longer than Launch waits, the pod is not found here, and the
	// pool settles it.
	f.Inject(fakecloud.Fault{Op: opCreate, After: true, Cut: true})
	lag := f.Inject(fakecloud.Fault{Op: opPods, Lag: fakecloud.Lag{Calls: 1000}, Times: -1})
	got, err := d.Launch(t.Context(), req)
	wantKind(t, "lag", err, driver.ErrUnavailable)
	lag.Remove()
	if list, listErr := d.List(t.Context(), req.Pool.ID); len(got) > 0 || listErr != nil || len(list) != 1 {
		t.Errorf("%v; %v, %v", got, list, listErr)
	}
}

// Few data centres have global networking, so a lack of capacity hints at NetworkingOff.
func TestNoRoomForNetworking(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	f.Do(func() { f.room = 0 })
	_, err := d.Launch(t.Context(), request(t, d, gputrain.Spec{Accelerator: accelerators.H100(), Nodes: 2}, 2))
	wantKind(t, "no room", err, driver.ErrNoCapacity, "NetworkingOff")
	_, err = d.Launch(t.Context(), request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 1))
	if wantKind(t, "no room", err, driver.ErrNoCapacity); strings.Contains(err.Error(), "NetworkingOff") {
		t.Error(err)
	}
}

// If there is capacity for some of the nodes, they are returned with the error.
func TestSomeAreMade(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	f.Do(func() { f.room = 2 })
	got, err := d.Launch(t.Context(), request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 4))
	wantKind(t, "room for two", err, driver.ErrNoCapacity)
	if len(got) != 2 || len(f.live()) != 2 {
		t.Errorf("%v, %v", got, f.live())
	}
}

// A launch that is cancelled during a create returns at once, with the pod that was made.
func TestGivenUp(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	req := request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 1)
	for _, after := range []bool{false, true} {
		held := make(chan struct{})
		hang := f.Inject(fakecloud.Fault{Op: opCreate, After: after, Hold: held, Cut: true})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-hang.Reached()
			cancel()
		}()
		got, err := d.Launch(ctx, req)
		close(held)
		if !errors.Is(err, context.Canceled) || len(got) != len(f.live()) || after != (len(got) == 1) {
			t.Errorf("after %v: %v, %v, %v", after, got, f.live(), err)
		}
	}
}

// If one node's outcome is unknown and another's is a refusal, the launch's outcome is unknown.
func TestOneIsOpen(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	held := make(chan struct{})
	cut := f.Inject(fakecloud.Fault{Op: opCreate, Hold: held, Cut: true})
	refused := f.Inject(faultAnswer(opCreate, -1, 400, `{"title":"Bad Request","status":400,"detail":"`+noCapacity+`"}`))
	go func() {
		<-cut.Reached()
		<-refused.Reached()
		close(held)
	}()
	got, err := d.Launch(t.Context(), request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 2))
	wantKind(t, "open", err, driver.ErrUnavailable, "no longer any instances")
	if len(got) > 0 || errors.Is(err, driver.ErrNoCapacity) {
		t.Errorf("%v, %v", got, err)
	}
}

// A 429 had no effect: any call is repeated.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := open(t, f.config())
	req := request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 1)
	body := `{"title":"Too Many Requests","status":429,"detail":"rate limit exceeded for the minute window"}`
	f.Inject(fakecloud.Fault{Op: opCreate, Answer: fakecloud.Failure(429, body, "1")})
	f.Inject(fakecloud.Fault{Op: opPods, Answer: fakecloud.Failure(429, body, "")})
	got, err := d.Launch(t.Context(), req)
	if err != nil || len(f.live()) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if list, err := d.List(t.Context(), ""); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	f.Inject(fakecloud.Fault{Op: opPods, Times: -1, Answer: fakecloud.Failure(429, body, "3600")})
	_, err = d.List(t.Context(), "")
	wantKind(t, "for an hour", err, driver.ErrRateLimited, "minute window")
}

// A read that fails is repeated, and an invalid list is an error, never an empty list.
func TestOddLists(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	f.Inject(fakecloud.Fault{Op: opPods, Answer: fakecloud.Failure(502, "", "")})
	if list, err := d.List(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	page := func(more string) fakecloud.Answer { return fakecloud.Failure(200, `{"pods":[]`+more+`}`, "") }
	for name, a := range map[string]fakecloud.Answer{
		"garbage": fakecloud.Garbage(), "page": fakecloud.HTML(), "empty": fakecloud.Empty(), "huge": fakecloud.Huge(65 << 20),
		"nothing in it":   fakecloud.Failure(200, `{}`, ""),
		"null":            fakecloud.Failure(200, `{"pods":null}`, ""),
		"bare":            fakecloud.Failure(200, `[]`, ""),
		"no ID":           fakecloud.Failure(200, `{"pods":[{"name":"gputrain-p-0"}]}`, ""),
		"more, nowhere":   page(`,"pagination":{"hasNextPage":true,"nextCursor":null}`),
		"the same cursor": page(`,"pagination":{"hasNextPage":true,"nextCursor":"7"}`),
		"odd pagination":  page(`,"pagination":[]`),
	} {
		fault := f.Inject(fakecloud.Fault{Op: opPods, Times: -1, Answer: a})
		list, err := d.List(t.Context(), "")
		wantKind(t, name, err, driver.ErrUnavailable)
		if list != nil {
			t.Errorf("%s: %v", name, list)
		}
		if _, err := d.Describe(t.Context(), "pod1", "pod2"); err == nil {
			t.Errorf("%s: Describe takes it", name)
		}
		fault.Remove()
	}
}

// A 404 from a proxy in front of the API does not mean that a pod is gone.
func TestNotFoundByAnother(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	got, err := d.Launch(t.Context(), request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 1))
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, f.config()) // a driver that has launched nothing, so that no pod is too new for it
	for _, body := range []string{"", "<html>", `{"message":"no Route matched"}`} {
		page := fakecloud.Failure(404, body, "")
		f.Inject(fakecloud.Fault{Op: opPod, Answer: page})
		in, err := other.Describe(t.Context(), got[0].ID)
		wantKind(t, body, err, driver.ErrUnavailable)
		if len(in) > 0 {
			t.Errorf("%q: %+v", body, in)
		}
		f.Inject(fakecloud.Fault{Op: opDelete, Answer: page})
		wantKind(t, body, other.Terminate(t.Context(), got[0].ID), driver.ErrUnavailable)
	}
}

func TestRequestID(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	f.Inject(fakecloud.Fault{Op: opPods, Answer: fakecloud.Failure(403, "{}", "").With("X-Request-Id", "r-77")})
	_, err := d.List(t.Context(), "")
	if e := (*driver.Error)(nil); !errors.As(err, &e) || e.RequestID != "r-77" || e.Op != "list" || !strings.Contains(e.Hint, "API Keys") {
		t.Errorf("%+v", err)
	}
}
