package cloudtest

import (
	"context"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
)

// unseen is a still fake whose reads lack the machines that are made from now on. reads are all operations that show machines.
func (c Cloud[F, C]) unseen(t *testing.T, reads []string) F {
	f := c.still(t)
	for _, op := range reads {
		f.Inject(fakecloud.Fault{Op: op, Times: -1, Lag: fakecloud.Lag{For: time.Hour}})
	}
	return f
}

// Unseen has creates answered with an ID, and every read lack the machine for longer than lists may lag. It is on its way up; it
// is asked to end by its ID, whatever reads show, and by another program, too; and it is gone only once that was accepted, and
// reads have lacked it for the lag.
func (c Cloud[F, C]) Unseen(t *testing.T, reads ...string) {
	t.Parallel()
	f := c.unseen(t, reads)
	d := Prepared(t, c.Config(f))
	lag, before := d.Capabilities().ListLag, c.kinds(f)["machine"]
	in, theirs := MustLaunch(t, d, c.Spec.Query(), 0), MustLaunch(t, d, c.Spec.Query(), 1)
	made := c.kinds(f)["machine"] - before
	if made != 2 {
		t.Fatalf("there are %d machines", made)
	}
	time.Sleep(lag + lag/2)
	if now := Describe(t, d, in.ID); now.State != driver.InstancePending {
		t.Errorf("a machine that was made, and that no read shows, is %v: %s", now.State, now.StateReason)
	}
	var refusals []*fakecloud.Injected
	for _, op := range c.Ops[providertest.OpTerminate] {
		refusals = append(refusals, f.Inject(fakecloud.Fault{Op: op, Times: -1, Answer: fakecloud.Failure(500, "internal error", "")}))
	}
	if err := d.Terminate(t.Context(), in.ID); err == nil {
		t.Error("its end was answered with an internal error, and is a success")
	}
	if now := Describe(t, d, in.ID); now.State == driver.InstanceTerminated {
		t.Errorf("no call to end it was accepted, and it counts as gone: %s", now.StateReason)
	}
	for _, r := range refusals {
		r.Remove()
	}
	for _, by := range []struct {
		driver.Driver
		id   string
		left int
	}{{d, in.ID, 1}, {Open(t, c.Config(f)), theirs.ID, 0}} {
		for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			err := by.Terminate(t.Context(), by.id)
			if left := c.kinds(f)["machine"] - before; err == nil && left == by.left {
				break
			} else if time.Now().After(until) {
				t.Fatalf("no read shows the machine, and it is not ended: %d are left, want %d; %v", left, by.left, err)
			}
		}
	}
	for until := time.Now().Add(lag + time.Minute); Describe(t, d, in.ID).State != driver.InstanceTerminated; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("its end was accepted, and reads have lacked it since, and it does not count as gone")
		}
	}
}

// UnseenPool gives up the opening of a pool whose machine no read shows. It buys one machine, and leaves nothing.
func (c Cloud[F, C]) UnseenPool(t *testing.T, reads ...string) {
	t.Parallel()
	f := c.unseen(t, reads)
	d := Open(t, c.Config(f))
	others := c.kinds(f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil && c.kinds(f)["machine"] == others["machine"] {
			time.Sleep(time.Millisecond)
		}
		// A read after the create shows that the driver has the create's answer.
		for had, until := len(f.Records(reads...)), time.Now().Add(time.Minute); ctx.Err() == nil && len(f.Records(reads...)) == had && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(d.Capabilities().ListLag * 3 / 2)
		cancel()
	}()
	pool, err := gputrain.Open(ctx, c.provider(f), c.Spec, gputrain.WithStateDir(t.TempDir()), gputrain.WithoutGuardian())
	if err == nil {
		t.Fatalf("it is open: %v", pool.Close())
	}
	if n := c.kinds(f)["machine"] - others["machine"]; n != 0 {
		t.Errorf("%d machines are left, and the error is %v", n, err)
	}
	creates := 0
	for _, r := range f.Records(c.Ops[providertest.OpLaunch]...) {
		if r.Status >= 200 && r.Status < 300 {
			creates++
		}
	}
	if creates != 1 {
		t.Errorf("%d creates for one machine", creates)
	}
}
