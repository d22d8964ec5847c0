package scaleway

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A start that is refused, or answered and not begun, is the launch's error, of the kind that the
// answer says, and nothing is left. It is not waited for until the server must have begun.
func TestStartThatFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault  fakecloud.Fault
		kind   error
		says   string
		starts int
	}{
		"fails":                  {fakecloud.Fault{Answer: fakecloud.Failure(500, "internal error", "")}, gputrain.ErrUnavailable, "500", 1},
		"is not allowed":         {fakecloud.Fault{Answer: failure(403, "permissions_denied", "insufficient permissions", nil)}, gputrain.ErrAuth, "permissions_denied", 1},
		"out of stock":           {fakecloud.Fault{Answer: failure(503, "out_of_stock", "resource out of stock", nil)}, gputrain.ErrNoCapacity, "out_of_stock", 1},
		"promised, and not done": {fakecloud.Fault{Undone: true, Times: -1}, gputrain.ErrUnavailable, "still stopped", startTries},
		"empty, and not done":    {fakecloud.Fault{Answer: fakecloud.Empty(), Times: -1}, gputrain.ErrUnavailable, "still stopped", startTries},
		"a task that has failed": {fakecloud.Fault{Answer: fakecloud.Reply(202, row{"task": row{"id": newID(1, 1), "status": "failure"}}), Times: -1}, gputrain.ErrUnavailable, "still stopped", startTries},
	} {
		f := startFake(t)
		tt.fault.Op = opAction
		f.Inject(tt.fault)
		got, err := cloudtest.Launch(t, cloudtest.Open(t, f.config()), l4, 0)
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

// A start that was answered and not done is asked for again, and succeeds.
func TestStartIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fakecloud.Fault{
		"promised": {Op: opAction, Undone: true}, "empty": {Op: opAction, Answer: fakecloud.Empty()},
	} {
		f := startFake(t)
		f.Inject(fault)
		d := cloudtest.Open(t, f.config())
		if now := cloudtest.Describe(t, d, cloudtest.MustLaunch(t, d, l4, 0).ID); now.State != gputrain.InstanceRunning {
			t.Errorf("%s: it is %v: %s", name, now.State, now.StateReason)
		}
	}
}

// A server that was seen to start and is stopped again has failed, and says so at the next look:
// it does not count as one that has not begun.
func TestStartThatFallsBack(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.fallsBack = true
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4, 0)
	now := cloudtest.Describe(t, d, in.ID)
	if now.State != gputrain.InstanceFailed || !strings.Contains(now.StateReason, "hypervisor failure") {
		t.Errorf("it is %v: %s", now.State, now.StateReason)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	cloudtest.Empty(t, f.account())
}

// A server that is stopped and was not seen to start may not have begun, for a minute.
func TestStoppedServer(t *testing.T) {
	t.Parallel()
	if now, why := state(server{State: "stopped"}, time.Now()); now != gputrain.InstancePending {
		t.Errorf("at once it is %v: %s", now, why)
	}
	if now, why := state(server{State: "stopped"}, time.Now().Add(-startGrace())); now != gputrain.InstanceStopped || !strings.Contains(why, "no room") {
		t.Errorf("later it is %v: %s", now, why)
	}
}

// A server that cannot be started, and not be ended either, is returned beside the error, as one
// that has failed.
func TestServerThatIsLeftByAFailedStart(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	f.Inject(fakecloud.Fault{Op: opAction, Answer: failure(403, "permissions_denied", "insufficient permissions", nil)})
	kept := f.Inject(fakecloud.Fault{Op: opDelete, Times: -1, Answer: failure(403, "permissions_denied", "insufficient permissions", nil)})
	got, err := cloudtest.Launch(t, d, l4, 0)
	cloudtest.Is(t, err, gputrain.ErrAuth, "scaleway", "launch", testKey)
	if len(got) != 1 || got[0].State != gputrain.InstanceFailed || !strings.Contains(got[0].StateReason, "not started") {
		t.Fatalf("%+v", got)
	}
	kept.Remove()
	if err := d.Terminate(t.Context(), got[0].ID); err != nil {
		t.Error(err)
	}
	cloudtest.Empty(t, f.account())
}

// The pool says at once why such a server was not started, by an event and by the error of Open,
// of its kind: it does not wait for the server.
func TestPoolWhoseStartFails(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Inject(fakecloud.Fault{Op: opAction, Answer: failure(403, "permissions_denied", "insufficient permissions", nil)})
	f.Inject(fakecloud.Fault{Op: opDelete, Times: 2, Answer: failure(403, "permissions_denied", "insufficient permissions", nil)})
	var told []string
	pool, err := gputrain.Open(t.Context(), cloudtest.Dialed(f.config()), l4, gputrain.WithStateDir(t.TempDir()), gputrain.WithEvents(func(e gputrain.Event) {
		if e.Err != nil {
			told = append(told, e.Err.Error())
		}
	}))
	if err == nil {
		t.Fatal(pool.Close())
	}
	cloudtest.Is(t, err, gputrain.ErrAuth, "scaleway", "launch", testKey)
	if said := strings.Join(told, "\n"); !strings.Contains(said, "permissions_denied") || strings.Contains(said, "no capacity") {
		t.Errorf("the events say %q", said)
	}
	cloudtest.Empty(t, f.account())
}

// A server whose end was answered and not done is asked to end again while it runs, within one
// call: it and its volume are billed meanwhile. An answer without a task promises nothing.
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
		in := cloudtest.MustLaunch(t, d, l4, 0)
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

// Where it never ends, the error says so, and what the last request was answered.
func TestEndThatIsPromisedForEver(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4, 0)
	f.Inject(fakecloud.Fault{Op: opAction, Undone: true})
	refused := f.Inject(fakecloud.Fault{Op: opAction, Times: -1, Answer: failure(400, "invalid_arguments", "invalid argument(s)", nil)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-refused.Reached()
		time.Sleep(10 * cloud.Second) // for the answer
		cancel()
	}()
	err := d.Terminate(ctx, in.ID)
	cloudtest.Is(t, err, gputrain.ErrUnavailable, "scaleway", "terminate", testKey)
	for _, want := range []string{"running and not gone yet", "invalid_arguments"} {
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// A server that is locked, and that the API does not find when it is asked to end it, is gone, with
// its volume, though the list shows it.
func TestLockedServerThatIsNotFound(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4, 0)
	f.set(in.ID, row{"state": "locked"})
	f.Inject(fakecloud.Fault{Op: opAction, Missing: true, Times: -1})
	for began := time.Now(); cloudtest.Describe(t, d, in.ID).State != gputrain.InstanceTerminated; {
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
