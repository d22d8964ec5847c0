package scaleway

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A start that is refused, or accepted and not begun, is the launch's error, of the answer's
// kind, and nothing is left. Launch does not wait until the server should have begun.
func TestStartThatFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault  fakecloud.Fault
		kind   error
		says   string
		starts int
	}{
		"fails":                  {fakecloud.Fault{Answer: fakecloud.Failure(500, "internal error", "")}, driver.ErrUnavailable, "500", 1},
		"is not allowed":         {fakecloud.Fault{Answer: failure(403, "permissions_denied", "insufficient permissions", nil)}, driver.ErrAuth, "permissions_denied", 1},
		"out of stock":           {fakecloud.Fault{Answer: failure(503, "out_of_stock", "resource out of stock", nil)}, driver.ErrNoCapacity, "out_of_stock", 1},
		"promised, and not done": {fakecloud.Fault{Undone: true, Times: -1}, driver.ErrUnavailable, "still stopped", startTries},
		"empty, and not done":    {fakecloud.Fault{Answer: fakecloud.Empty(), Times: -1}, driver.ErrUnavailable, "still stopped", startTries},
		"a task that has failed": {fakecloud.Fault{Answer: fakecloud.Reply(202, row{"task": row{"id": newID(1, 1), "status": "failure"}}), Times: -1}, driver.ErrUnavailable, "still stopped", startTries},
	} {
		f := startFake(t)
		tt.fault.Op = opAction
		f.Inject(tt.fault)
		got, err := cloudtest.Launch(t, cloudtest.Open(t, f.config()), l4.Query(), 0)
		cloudtest.Is(t, err, tt.kind, "scaleway", "launch", testKey)
		if err == nil || !strings.Contains(err.Error(), tt.says) || len(got) != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if n := len(f.Records(opAction)); n != tt.starts {
			t.Errorf("%s: it was started %d times", name, n)
		}
		cloudtest.Empty(t, f.account())
	}
}

// A start that was accepted without effect is repeated, and succeeds.
func TestStartIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fakecloud.Fault{
		"promised": {Op: opAction, Undone: true}, "empty": {Op: opAction, Answer: fakecloud.Empty()},
	} {
		f := startFake(t)
		f.Inject(fault)
		d := cloudtest.Open(t, f.config())
		if now := cloudtest.Describe(t, d, cloudtest.MustLaunch(t, d, l4.Query(), 0).ID); now.State != driver.InstanceRunning {
			t.Errorf("%s: it is %v: %s", name, now.State, now.StateReason)
		}
	}
}

// A server that was seen starting and is stopped again has failed, which the next read
// reports: it does not count as one that has not begun.
func TestStartThatFallsBack(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.fallsBack = true
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
	now := cloudtest.Describe(t, d, in.ID)
	if now.State != driver.InstanceFailed || !strings.Contains(now.StateReason, "hypervisor failure") {
		t.Errorf("it is %v: %s", now.State, now.StateReason)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	cloudtest.Empty(t, f.account())
}

// A stopped server that was not seen starting may not have begun, for a minute.
func TestStoppedServer(t *testing.T) {
	t.Parallel()
	if now, why := state(server{State: "stopped"}, time.Now()); now != driver.InstancePending {
		t.Errorf("at once it is %v: %s", now, why)
	}
	if now, why := state(server{State: "stopped"}, time.Now().Add(-startGrace())); now != driver.InstanceStopped || !strings.Contains(why, "no room") {
		t.Errorf("later it is %v: %s", now, why)
	}
}

// A server that can be neither started nor ended is returned with the error, as a failed
// instance.
func TestServerThatIsLeftByAFailedStart(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	f.Inject(fakecloud.Fault{Op: opAction, Answer: failure(403, "permissions_denied", "insufficient permissions", nil)})
	kept := f.Inject(fakecloud.Fault{Op: opDelete, Times: -1, Answer: failure(403, "permissions_denied", "insufficient permissions", nil)})
	got, err := cloudtest.Launch(t, d, l4.Query(), 0)
	cloudtest.Is(t, err, driver.ErrAuth, "scaleway", "launch", testKey)
	if len(got) != 1 || got[0].State != driver.InstanceFailed || !strings.Contains(got[0].StateReason, "not started") {
		t.Fatalf("%+v", got)
	}
	kept.Remove()
	if err := d.Terminate(t.Context(), got[0].ID); err != nil {
		t.Error(err)
	}
	cloudtest.Empty(t, f.account())
}

// The pool reports at once why such a server did not start, by an event and by the error of
// Open, of the right kind. It does not wait for the server.
func TestPoolWhoseStartFails(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Inject(fakecloud.Fault{Op: opAction, Answer: failure(403, "permissions_denied", "insufficient permissions", nil)})
	f.Inject(fakecloud.Fault{Op: opDelete, Times: 2, Answer: failure(403, "permissions_denied", "insufficient permissions", nil)})
	var told []string
	pool, err := gputrain.Open(t.Context(), standard.Reached(f.config()), l4, gputrain.WithStateDir(t.TempDir()), gputrain.WithEvents(func(e gputrain.Event) {
		if e.Err != nil {
			told = append(told, e.Err.Error())
		}
	}))
	if err == nil {
		t.Fatal(pool.Close())
	}
	cloudtest.Is(t, err, driver.ErrAuth, "scaleway", "launch", testKey)
	if said := strings.Join(told, "\n"); !strings.Contains(said, "permissions_denied") || strings.Contains(said, "no capacity") {
		t.Errorf("the events say %q", said)
	}
	cloudtest.Empty(t, f.account())
}

// If an end was accepted without effect, End repeats it while the server runs: the server and
// its volume are billed meanwhile. An answer without a task promises nothing.
func TestEndIsAskedForAgain(t *testing.T) {
	t.Parallel()
	const times = 3
	for name, fault := range map[string]fakecloud.Fault{
		"promised":               {Undone: true},
		"empty":                  {Answer: fakecloud.Empty()},
		"no task":                {Answer: fakecloud.Reply(200, row{})},
		"a task that has failed": {Answer: fakecloud.Reply(202, row{"task": row{"id": newID(1, 1), "status": "failure"}})},
		"busy after a promise":   {Undone: true},
	} {
		f := startFake(t)
		d := cloudtest.Open(t, f.config())
		in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
		before := len(f.Records(opAction))
		fault.Op, fault.Times = opAction, times
		f.Inject(fault)
		want := times + 1
		if name == "busy after a promise" {
			f.Inject(fakecloud.Fault{Op: opAction, Answer: failure(400, "invalid_arguments", "invalid argument(s)", nil)})
			want++
		}
		if err := d.Terminate(t.Context(), in.ID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(f.Records(opAction)) - before; n != want {
			t.Errorf("%s: it was asked for %d times, want %d", name, n, want)
		}
		cloudtest.Empty(t, f.account())
	}
}

// If the server never ends, the error says so, with the last answer.
func TestEndThatIsPromisedForEver(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
	f.Inject(fakecloud.Fault{Op: opAction, Undone: true})
	refused := f.Inject(fakecloud.Fault{Op: opAction, Times: -1, Answer: failure(400, "invalid_arguments", "invalid argument(s)", nil)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-refused.Reached()
		<-f.Inject(fakecloud.Fault{Op: opServer, Hold: t.Context().Done()}).Reached() // asked for after the answer has come
		cancel()
	}()
	err := d.Terminate(ctx, in.ID)
	cloudtest.Is(t, err, driver.ErrUnavailable, "scaleway", "terminate", testKey)
	for _, want := range []string{"running and not gone yet", "invalid_arguments"} {
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// A locked server that an end does not find is gone, with its volume, though it is still
// listed.
func TestLockedServerThatIsNotFound(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
	f.set(in.ID, row{"state": "locked"})
	f.Inject(fakecloud.Fault{Op: opAction, Missing: true, Times: -1})
	for began := time.Now(); cloudtest.Describe(t, d, in.ID).State != driver.InstanceTerminated; {
		if err := d.Terminate(t.Context(), in.ID); err != nil {
			t.Error(err)
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("it is not said to be gone")
		}
	}
	if listed, err := d.List(t.Context(), "p1"); err != nil || len(listed) != 0 || len(f.account()) != 1 { // the server
		t.Errorf("%+v, %v: %+v", listed, err, f.account())
	}
}
