package verda

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// still returns a fake whose machines do not run.
func still(t testing.TB) *fake {
	f := startFake(t)
	f.noMachines = true
	return f
}

// The create call has everything: the tags, the volume that is deleted with the machine, and
// on spot what happens to that volume at an eviction.
func TestOrder(t *testing.T) {
	t.Parallel()
	f := still(t)
	cfg := f.config()
	cfg.SSHKeyID = "b5a2a1f0-1111-4222-8333-444455556666"
	d := cloudtest.Prepared(t, cfg)
	cloudtest.MustLaunch(t, d, driver.Query{DiskGiB: 200}, 0)
	cloudtest.MustLaunch(t, d, driver.Query{Allocation: driver.Spot}, 1)
	for i, want := range [][]string{
		{`"size":215`, `"is_spot":false`, `"contract":"PAY_AS_YOU_GO"`, `"name":"gputrain-p1-0-os"`, `"image":"ubuntu-24.04-cuda-13.0-open-docker"`, `444455556666`, `{"key":"gputrain-pool","value":"p1"}`},
		{`"size":100`, `"is_spot":true`, `"contract":"SPOT"`, `"on_spot_discontinue":"delete_permanently"`, `"hostname":"gputrain-p1-1"`, `"location_code":"FIN-01"`},
	} {
		body := f.Records(opCreate)[i].Body
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("%s lacks %s", body, w)
			}
		}
	}
}

// A create is answered with only an ID, with or without quotes. After another answer a machine
// may exist, and is looked for.
func TestBareID(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Prepared(t, f.config())
	for i, quoted := range []bool{false, true} {
		f.Do(func() { f.quoted = quoted })
		if in := cloudtest.MustLaunch(t, d, driver.Query{}, i); !uuid.MatchString(in.ID) {
			t.Errorf("ID %q", in.ID)
		}
	}
	f.Inject(fakecloud.Fault{Op: opCreate, After: true, Answer: fakecloud.Reply(202, "created")})
	if in := cloudtest.MustLaunch(t, d, driver.Query{}, 2); in.Name != "p1-2" || len(f.Records(opCreate)) != 3 {
		t.Errorf("%+v after %d creates", in, len(f.Records(opCreate)))
	}
}

// A lack of capacity is reported at once, and then the create is not repeated, or later.
func TestNoCapacity(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Prepared(t, f.config())
	f.Do(func() { f.room = 0 })
	_, err := cloudtest.Launch(t, d, driver.Query{}, 0)
	cloudtest.Is(t, err, driver.ErrNoCapacity, "verda", "launch")
	if n := len(f.Records(opCreate)); n != 1 {
		t.Errorf("%d creates", n)
	}
	f.Do(func() { f.room = 1 })
	in := cloudtest.MustLaunch(t, d, driver.Query{}, 0)
	f.set(in.ID, row{"status": "no_capacity", "ip": nil})
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceFailed || !strings.Contains(now.StateReason, "none left") {
		t.Errorf("%v: %q", now.State, now.StateReason)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceTerminated {
		t.Errorf("%v", now.State)
	}
}

// Without credit nothing is made.
func TestBalanceThatIsUsedUp(t *testing.T) {
	t.Parallel()
	f := still(t)
	f.funds = 0
	err := cloudtest.Open(t, f.config()).Prepare(t.Context(), cloudtest.Info("p1"))
	cloudtest.Is(t, err, driver.ErrBalance, "verda", "prepare")
	if left := f.everything(); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

// If a machine refuses an image, which costs nothing, the next one is tried.
func TestImageThatIsRefused(t *testing.T) {
	t.Parallel()
	f := still(t)
	f.wrongImage = []string{"ubuntu-24.04-cuda-13.0-open-docker"}
	d := cloudtest.Prepared(t, f.config())
	cloudtest.MustLaunch(t, d, driver.Query{}, 0)
	creates := f.Records(opCreate)
	if len(creates) != 2 || !strings.Contains(creates[1].Body, "ubuntu-24.04-cuda-12.8-docker") {
		t.Errorf("%v", creates)
	}
	cfg := f.config()
	cfg.CUDA = "12.8"
	cloudtest.MustLaunch(t, cloudtest.Prepared(t, cfg), driver.Query{}, 2)
	if creates := f.Records(opCreate); len(creates) != 3 || !strings.Contains(creates[2].Body, "ubuntu-24.04-cuda-12.8-docker") {
		t.Errorf("%v", creates)
	}
	cfg.CUDA = "11.8"
	_, err := cloudtest.Launch(t, cloudtest.Prepared(t, cfg), driver.Query{}, 3)
	cloudtest.Is(t, err, driver.ErrInvalid, "verda", "launch")
	cfg.Image = f.wrongImage[0]
	_, err = cloudtest.Launch(t, cloudtest.Prepared(t, cfg), driver.Query{}, 1)
	cloudtest.Is(t, err, driver.ErrInvalid, "verda", "launch")
	if e, ok := errors.AsType[*driver.Error](err); !ok || !strings.Contains(e.Hint, "Config.Image") {
		t.Errorf("%v", err)
	}
}

// The reason of a failing server is not trusted: a machine that it may have made is looked
// for, and no create is repeated.
func TestFailureInTheWordsOfARefusal(t *testing.T) {
	t.Parallel()
	for rank, answer := range []fakecloud.Answer{
		failure(504, "server_error", "Time limit exceeded"),
		failure(500, "server_error", "Operating system is not valid for this instance type"),
		failure(408, "invalid_request", "Quota check timed out"),
	} {
		f := still(t)
		d := cloudtest.Prepared(t, f.config())
		f.Inject(fakecloud.Fault{Op: opCreate, After: true, Answer: answer})
		in := cloudtest.MustLaunch(t, d, driver.Query{}, rank)
		if n := len(f.Records(opCreate)); n != 1 || in.ID == "" {
			t.Errorf("%+v after %d creates", in, n)
		}
	}
}

// A running machine may get its address late.
func TestAddressComesLate(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, driver.Query{}, 0)
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstancePending || now.SSH.Addr != "" {
		t.Errorf("%+v", now)
	}
	f.set(in.ID, row{"ip": "203.0.113.40"})
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceRunning || now.SSH.Addr != "203.0.113.40:22" || now.SSH.User != "root" || now.Offer.HourlyUSD.String() != "$3.20" || len(now.Offer.Parts) != 2 || now.Offer.Country != "FI" {
		t.Errorf("%+v", now)
	}
}

// Without tags, the description identifies a machine. It has the full name, of which a host
// name may have room for only a part.
func TestOwnerWithoutTags(t *testing.T) {
	t.Parallel()
	long := "gputrain-" + strings.Repeat("p", 40) + "-123456-r1"
	for _, tt := range []struct {
		in   instance
		want string
	}{
		{instance{Hostname: "gputrain-p1-3", Description: "gputrain-p1-3"}, "p1-3"},
		{instance{Hostname: hostname(long), Description: long}, strings.TrimPrefix(long, "gputrain-")},
		{instance{Hostname: "gputrain-p1-3", Description: "mine"}, ""},
		{instance{Hostname: "lab", Description: "gputrain-p1-3"}, ""},
	} {
		if got := ownerOf(tt.in); got.Name != tt.want || len(tt.in.Hostname) > maxHostname {
			t.Errorf("%+v is %q's; want %q", tt.in, got.Name, tt.want)
		}
	}
}

// At no moment between two marks a machine is without a lease, and leftovers of a failed call
// do no harm.
func TestLeaseIsNeverWithout(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, driver.Query{}, 0)
	until := time.Now().Truncate(time.Second)
	mark := func(by time.Duration) error {
		return d.(driver.LeaseMarker).MarkLease(t.Context(), cloudtest.Info("p1"), until.Add(by), in.ID, "gone")
	}
	noted := func() time.Time {
		list, err := d.List(t.Context(), "p1")
		if err != nil || len(list) != 2 {
			t.Fatalf("%v, %v", list, err)
		}
		return list[0].LeaseUntil
	}
	if err := mark(time.Minute); err != nil || !noted().Equal(until.Add(time.Minute)) {
		t.Errorf("%v, %v", noted(), err)
	}
	f.Inject(fakecloud.Fault{Op: opUntag, Answer: failure(403, "forbidden_action", "no")})
	err := mark(2 * time.Minute)
	cloudtest.Is(t, err, driver.ErrAuth, "verda", "mark the lease")
	if !noted().Equal(until.Add(2 * time.Minute)) {
		t.Errorf("%v", noted())
	}
	f.Inject(fakecloud.Fault{Op: opTag, Answer: failure(500, "server_error", "no")})
	if err := mark(3 * time.Minute); err == nil || !noted().Equal(until.Add(2*time.Minute)) {
		t.Errorf("%v, %v", noted(), err)
	}
	for i := 3; i < 6; i++ {
		if err := mark(time.Duration(i) * time.Minute); err != nil || !noted().Equal(until.Add(time.Duration(i)*time.Minute)) {
			t.Errorf("%v, %v", noted(), err)
		}
	}
}

// A launch by another driver finds the pool's key. If the key is missing, it rents nothing.
func TestLaunchByAnotherDriver(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Open(t, f.config())
	_, err := cloudtest.Launch(t, d, driver.Query{}, 0)
	cloudtest.Is(t, err, driver.ErrInvalid, "verda", "launch")
	cloudtest.Prepared(t, f.config())
	cloudtest.MustLaunch(t, d, driver.Query{}, 0)
	o := cloudtest.AllOffers(t, d, driver.Query{})[0]
	for _, id := range []string{"", "FIN-01", "FIN-01/1H100.80S.30V/weekly", "/x/spot"} {
		o.ID = id
		_, err := d.Launch(t.Context(), cloudtest.Request(t, driver.Query{}, o, 1))
		cloudtest.Is(t, err, driver.ErrInvalid, "verda", "launch")
	}
	if n := len(f.Records(opCreate)); n != 1 {
		t.Errorf("%d creates", n)
	}
}
