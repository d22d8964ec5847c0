package scaleway

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A quota is less what is used, of any state, and its answers are kept for a minute. Without a
// limit, or without a group that names the organization, nothing is known.
func TestQuota(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.quota = 2
	d := cloudtest.Open(t, f.config())
	o := offer(t, cloudtest.AllOffers(t, d, l4.Query()), "L4-1-24G")
	got, err := d.Launch(t.Context(), cloudtest.Request(t, l4.Query(), o, 0))
	cloudtest.One(t, got, err)
	for range 3 {
		q, err := d.(driver.Quoter).Quota(t.Context(), o)
		if err != nil || !q.Known || q.Machines != 1 || q.Reason != "cp_servers_type_L4_1_24G in fr-par-2: 2 servers, of which 1 are used; a machine needs 1" {
			t.Errorf("%+v, %v", q, err)
		}
	}
	if n := len(f.Records(opQuota)); n != 1 {
		t.Errorf("the quotas are asked for %d times", n)
	}
	unknown := func(name string) {
		t.Helper()
		if q, err := cloudtest.Open(t, f.config()).(driver.Quoter).Quota(t.Context(), o); err != nil || q != (driver.Quota{}) {
			t.Errorf("%s: %+v, %v", name, q, err)
		}
	}
	f.quota = -1
	unknown("unlimited")
	f.stocked = nil
	unknown("no security group")
}

// The least of several limits counts. A limit for all zones counts servers everywhere, and zones
// that the API does not know have none.
func TestQuotaOfAllZones(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.Zone = ""
	f.stocked = []string{testZone, "nl-ams-1"}
	d := cloudtest.Open(t, cfg)
	dutch := l4
	dutch.Regions = []string{"nl-ams"}
	got, err := d.Launch(t.Context(), cloudtest.Request(t, l4.Query(), offer(t, cloudtest.AllOffers(t, d, dutch.Query()), "L4-1-24G"), 0))
	cloudtest.One(t, got, err)
	french := l4
	french.Regions = []string{testZone}
	o := offer(t, cloudtest.AllOffers(t, d, french.Query()), "L4-1-24G")
	for name, tt := range map[string]struct {
		limits []row
		want   int
	}{
		"all zones":        {[]row{{"global": true, "limit": 3}}, 2},
		"a region":         {[]row{{"region": "fr-par", "limit": 3}}, 3},
		"the least":        {[]row{{"zone": testZone, "limit": 4}, {"global": true, "limit": 1}}, 0},
		"of another place": {[]row{{"zone": "fr-par-1", "limit": 0}, {"region": "nl-ams", "limit": 0}, {"zone": testZone, "limit": 4}}, 4},
	} {
		limits := f.Inject(fakecloud.Fault{Op: opQuota, Times: 1, Answer: fakecloud.Reply(200, row{"total_count": 1, "quota": []row{{"name": "cp_servers_type_L4_1_24G", "limits": tt.limits}}})})
		lost := f.Inject(fakecloud.Fault{Op: opServers, Skip: 1, Times: 1, Answer: failure(404, "not_found", "zone not found", nil)})
		q, err := cloudtest.Open(t, cfg).(driver.Quoter).Quota(t.Context(), o)
		if err != nil || !q.Known || q.Machines != tt.want {
			t.Errorf("%s: %+v, %v", name, q, err)
		}
		limits.Remove()
		lost.Remove()
	}
}

// A key that may not read quotas is told so once a minute, and can launch.
func TestQuotaThatIsSecret(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.unread = true
	d := cloudtest.Open(t, f.config())
	o := cloudtest.AllOffers(t, d, l4.Query())[0]
	for range 2 {
		_, err := d.(driver.Quoter).Quota(t.Context(), o)
		cloudtest.Is(t, err, driver.ErrAuth, "scaleway", "quota", testKey)
	}
	if n := len(f.Records(opQuota)); n != 1 {
		t.Errorf("the quotas are asked for %d times", n)
	}
	_, err := d.(driver.Quoter).Quota(t.Context(), driver.Offer{ID: "us/east"})
	cloudtest.Is(t, err, driver.ErrInvalid, "scaleway", "quota")
	cloudtest.MustLaunch(t, d, l4.Query(), 0)
}

// A tag that Scaleway's lists would split, or that would let another key log in, is refused
// before anything is made. The volume has the user's tags, too.
func TestUserTags(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for name, value := range map[string]string{"team": "a,b", "cost center": "1", "a=b": "c", "": "x", "AUTHORIZED_KEY": "ssh-ed25519_AAAA", "authorized_key": "x", "t": "a\nb"} {
		info := cloudtest.Info("p1")
		info.Tags = map[string]string{name: value}
		cloudtest.Is(t, d.Prepare(t.Context(), info), driver.ErrInvalid, "scaleway", "prepare")
		req := cloudtest.Request(t, l4.Query(), offer(t, cloudtest.AllOffers(t, d, l4.Query()), "L4-1-24G"), 0)
		req.Pool.Tags = info.Tags
		_, err := d.Launch(t.Context(), req)
		cloudtest.Is(t, err, driver.ErrInvalid, "scaleway", "launch")
	}
	if n := len(f.Records(opCreate)); n > 0 {
		t.Errorf("%d servers were made", n)
	}
	req := cloudtest.Request(t, l4.Query(), offer(t, cloudtest.AllOffers(t, d, l4.Query()), "L4-1-24G"), 0)
	req.Pool.Tags = map[string]string{"team": "vision=2", "empty": ""}
	got, err := d.Launch(t.Context(), req)
	in := cloudtest.One(t, got, err)
	if has := f.userTags(in.ID); has["team"] != "vision=2" || len(has) != 2 {
		t.Errorf("%v", has)
	}
	if marks := f.Records(opTagVolume); len(marks) != 1 || !strings.Contains(marks[0].Body, `"team=vision=2"`) {
		t.Errorf("%+v", marks)
	}
}
