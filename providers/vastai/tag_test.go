package vastai

import (
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// The label, of at most 256 characters, is the only tag.
func TestLabel(t *testing.T) {
	t.Parallel()
	at := time.Unix(1790000000, 0)
	whole := pooltag.Tag{Pool: "p1-2", Name: "p1-2-0-r1", Rank: 0, Owner: "host.12ab34cd/17/99", Lease: 15 * time.Minute, Created: at, Expires: at.Add(time.Hour), Until: at.Add(time.Minute)}
	for _, want := range []pooltag.Tag{
		whole,
		{Pool: "p", Name: "p-0", Owner: "h/1/2", Lease: 5 * time.Second, Created: at},
		{Pool: "p", Name: "another", Rank: 12},
		{Pool: "p"},
	} {
		got, ok := labels.Parse(labels.String(want))
		if !ok || got != want {
			t.Errorf("%s: %+v; want %+v", labels.String(want), got, want)
		}
	}
	long := whole
	long.Pool, long.Name = strings.Repeat("a", 40), strings.Repeat("a", 40)+"-100-r12"
	long.Owner = strings.Repeat("h", 63) + ".12ab34cd/4194304/99999999999"
	if got, ok := labels.Parse(labels.String(long)); !ok || got != long || len(labels.String(long)) > labels.Most {
		t.Errorf("%d characters: %+v", len(labels.String(long)), got)
	}
	long.Owner = strings.Repeat("h", 253) + ".12ab34cd/4194304/99999999999"
	if got, ok := labels.Parse(labels.String(long)); !ok || got.Owner != "" || got.Name != long.Name || got.Lease != long.Lease || len(labels.String(long)) > labels.Most {
		t.Errorf("%d characters: %+v", len(labels.String(long)), got)
	}
	for _, label := range []string{"", "mine", "gputrain-p1-0", "gputrain:", "gputrain:p1", "gputrain:P1:0:0::0:::", "gputrain:p1:0:0::0:::more:", "my gputrain:p1:0:0::0:::"} {
		if got, ok := labels.Parse(label); ok {
			t.Errorf("%q is taken for %+v", label, got)
		}
	}
	if got, ok := labels.Parse("gputrain:p1:0:-3::x:9e99:-1:99999999999999999999"); !ok || got != (pooltag.Tag{Pool: "p1", Name: "p1-0"}) {
		t.Errorf("numbers that make no sense: %+v", got)
	}
}

// A machine whose label a user edited is no longer gputrain's: it is not listed and not
// labelled again.
func TestEditedLabelIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	id := mustLaunch(t, d, gputrain.Spec{}, 0).ID
	f.set(id, row{"label": "keep this"})
	if err := d.MarkLease(t.Context(), cloudtest.Info("p1"), time.Now(), id); err != nil {
		t.Error(err)
	}
	if got, err := d.List(t.Context(), ""); err != nil || len(got) != 1 || got[0].Kind != "key" {
		t.Errorf("%+v, %v", got, err)
	}
	f.set(id, row{"label": nil})
	if _, err := d.List(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if n := len(f.Records(opManage)); n != 0 {
		t.Errorf("%d labels were changed", n)
	}
}

// List returns what MarkLease wrote.
func TestMarkLease(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	id := mustLaunch(t, d, gputrain.Spec{}, 4).ID
	pool, until := cloudtest.Info("p1"), time.Unix(1790000000, 0)
	pool.Owner = "other.12ab34cd/3/4" // another program that took the pool over
	if err := f.open().MarkLease(t.Context(), pool, until, id, "17"); err != nil {
		t.Error(err)
	}
	got, err := d.List(t.Context(), "p1")
	if err != nil || len(got) != 2 || got[0].LeaseUntil != until || got[0].Owner != pool.Owner || got[0].Name != "p1-4" || got[0].Created.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	if in := cloudtest.Describe(t, d, id); in.Name != "p1-4" || in.Rank != 4 {
		t.Errorf("%+v", in)
	}
	f.Inject(fakecloud.Fault{Op: opManage, Answer: fakecloud.Failure(404, row{"error": "no_such_instance"}, "")})
	if err := d.MarkLease(t.Context(), pool, until, id); err != nil {
		t.Errorf("a machine that is gone: %v", err)
	}
}

// A list has at most 25 rows a page, and all pages are read. Machines of other pools
// and programs are left out.
func TestListReadsAllPages(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	f.Do(func() {
		for i := range 60 {
			label := labels.String(pooltag.Tag{Pool: "p1", Name: "p1-0"})
			switch i % 3 {
			case 1:
				label = labels.String(pooltag.Tag{Pool: "p10", Name: "p10-0"})
			case 2:
				label = "another user's"
			}
			f.instances.Put(nil, "9"+string(rune('a'+i)), &rental{row: row{"id": 9000 + i, "actual_status": "running", "label": label, "start_date": 1761008618.2}})
		}
	})
	for pool, want := range map[string]int{"p1": 20 + 1, "p10": 20, "": 40 + 1, "p": 0} {
		got, err := d.List(t.Context(), pool)
		if err != nil || len(got) != want {
			t.Errorf("%q: %d, %v; want %d", pool, len(got), err, want)
		}
		if pool == "p10" && (got[0].Created.IsZero() || got[0].HourlyUSD != driver.Price{}) {
			t.Errorf("%+v", got[0])
		}
	}
	for _, r := range f.Records(opList) {
		if r.Query.Get("limit") != "25" {
			t.Errorf("%v", r.Query)
		}
	}
	_, err := d.List(t.Context(), "No Pool")
	is(t, err, driver.ErrInvalid, "list")
}
