package aws

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A spot machine costs what its zone costs now, with its disk and address. The price is asked for
// at most every ten minutes.
func TestSpotPriceIsFollowed(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	spec := a10g
	spec.Allocation, spec.DiskGiB = driver.Spot, 25
	f.full = []string{"us-east-1a"}
	in := mustLaunch(t, d, request(spec, offer(t, d, spec, "g5.xlarge"), 1))[0]
	costs := func(d *awsDriver, want float64) {
		t.Helper()
		o := cloudtest.Describe(t, d, in.ID).Offer
		usd, known := o.HourlyUSD.USD()
		if !known || !near(usd, want*1.1+100*diskUSD+addressUSD) || len(o.Parts) != 3 || !near(o.Parts[0].HourlyUSD, want*1.1) {
			t.Errorf("%+v, want a machine of $%v", o, want*1.1)
		}
	}
	n := len(f.Records("DescribeSpotPriceHistory"))
	costs(d, 0.4)
	f.Do(func() { f.types[2].spotUSD = 0.5 })
	costs(d, 0.4)
	if more := len(f.Records("DescribeSpotPriceHistory")) - n; more != 0 {
		t.Errorf("it is asked for %d times within ten minutes", more)
	}
	later := func() {
		s := d.instances.spot
		s.mu.Lock()
		defer s.mu.Unlock()
		for key := range s.at {
			s.at[key] = time.Now().Add(-spotAge)
		}
	}
	later()
	costs(d, 0.5)
	f.Do(func() { f.types[2].spotUSD = 0.6 })
	later()
	f.Inject(fakecloud.Fault{Op: "DescribeSpotPriceHistory", Answer: refused("UnauthorizedOperation", "no")})
	costs(d, 0.5) // the last one that was told
	costs(f.open(), 0.6)
}

// Another driver knows the price of a machine on demand by its tags, with the same parts.
func TestPriceByAnother(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	spec := a10g
	spec.DiskGiB = 25
	o := offer(t, d, spec, "g5.xlarge")
	in := mustLaunch(t, d, request(spec, o, 1))[0]
	other := f.open()
	for range 2 {
		now := cloudtest.Describe(t, other, in.ID).Offer
		if now.HourlyUSD != o.HourlyUSD || len(now.Parts) != 3 || !near(now.Parts[0].HourlyUSD, 1.006) || !near(now.Parts[1].HourlyUSD, 100*diskUSD) {
			t.Errorf("%+v, want the price of %+v", now, o)
		}
	}
	if n := len(f.Records("DescribeVolumes")); n != 1 {
		t.Errorf("its disk is looked up %d times", n)
	}
	if now := cloudtest.Describe(t, d, in.ID).Offer; now.HourlyUSD != o.HourlyUSD || len(f.Records("DescribeVolumes")) != 1 {
		t.Errorf("%+v", now)
	}
}

// A user's tags are on the machine and its disk, or nothing is made.
func TestUserTags(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{"aws:team": "x", "gputrain:pool": "p2", "Name": "mine", "": "x", "team": "a*b", "te,am": "x"} {
		f := startFake(t)
		d := f.open()
		pool := cloudtest.Info("p1")
		pool.Tags = map[string]string{key: value}
		is(t, d.Prepare(t.Context(), pool), driver.ErrInvalid, "prepare")
		req := request(a10g, driver.Offer{InstanceType: "g5.xlarge", Region: "us-east-1"}, 1)
		req.Pool = pool
		_, err := d.Launch(t.Context(), req)
		is(t, err, driver.ErrInvalid, "launch")
		if live := f.live(); len(live) != 0 {
			t.Errorf("made: %v", live)
		}
	}
}
