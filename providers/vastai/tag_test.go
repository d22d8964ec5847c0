package vastai

import (
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The label is the only tag that there is, of 256 characters at most.
func TestLabel(t *testing.T) {
	t.Parallel()
	at := time.Unix(1790000000, 0)
	whole := tag{pool: "p1-2", name: "p1-2-0-r1", rank: 0, owner: "host.12ab34cd/17/99", lease: 15 * time.Minute, created: at, expires: at.Add(time.Hour), until: at.Add(time.Minute)}
	for _, want := range []tag{
		whole,
		{pool: "p", name: "p-0", owner: "h/1/2", lease: 5 * time.Second, created: at},
		{pool: "p", name: "another", rank: 12},
		{pool: "p"},
	} {
		got, ok := parseTag(want.String())
		if !ok || got != want {
			t.Errorf("%s: %+v; want %+v", want, got, want)
		}
	}
	long := whole
	long.pool, long.name = strings.Repeat("a", 40), strings.Repeat("a", 40)+"-100-r12"
	long.owner = strings.Repeat("h", 63) + ".12ab34cd/4194304/99999999999"
	if got, ok := parseTag(long.String()); !ok || got != long || len(long.String()) > maxLabel {
		t.Errorf("%d characters: %+v", len(long.String()), got)
	}
	long.owner = strings.Repeat("h", 253) + ".12ab34cd/4194304/99999999999"
	if got, ok := parseTag(long.String()); !ok || got.owner != "" || got.name != long.name || got.lease != long.lease || len(long.String()) > maxLabel {
		t.Errorf("%d characters: %+v", len(long.String()), got)
	}
	for _, label := range []string{"", "mine", "gputrain-p1-0", "gputrain:", "gputrain:p1", "gputrain:P1:0:0::0:::", "gputrain:p1:0:0::0:::more:", "my gputrain:p1:0:0::0:::"} {
		if got, ok := parseTag(label); ok {
			t.Errorf("%q is taken for %+v", label, got)
		}
	}
	if got, ok := parseTag("gputrain:p1:0:-3::x:9e99:-1:99999999999999999999"); !ok || got != (tag{pool: "p1", name: "p1-0"}) {
		t.Errorf("numbers that make no sense: %+v", got)
	}
}

// Who edits a label takes the machine out of gputrain's hands: it is not listed, nor
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

// What MarkLease notes, List finds again.
func TestMarkLease(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	id := mustLaunch(t, d, gputrain.Spec{}, 4).ID
	pool, until := cloudtest.Info("p1"), time.Unix(1790000000, 0)
	pool.Owner = "other.12ab34cd/3/4" // which has taken it over
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

// A list has pages of 25 at most, and all of them count. Another pool's machines, and
// those of other programs, are not this pool's.
func TestListReadsAllPages(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	f.Do(func() {
		for i := range 60 {
			label := tag{pool: "p1", name: "p1-0"}.String()
			switch i % 3 {
			case 1:
				label = tag{pool: "p10", name: "p10-0"}.String()
			case 2:
				label = "somebody's"
			}
			f.instances.Put(nil, "9"+string(rune('a'+i)), &rental{row: row{"id": 9000 + i, "actual_status": "running", "label": label, "start_date": 1761008618.2}})
		}
	})
	for pool, want := range map[string]int{"p1": 20 + 1, "p10": 20, "": 40 + 1, "p": 0} {
		got, err := d.List(t.Context(), pool)
		if err != nil || len(got) != want {
			t.Errorf("%q: %d, %v; want %d", pool, len(got), err, want)
		}
		if pool == "p10" && (got[0].Created.IsZero() || got[0].HourlyUSD != gputrain.Price{}) {
			t.Errorf("%+v", got[0])
		}
	}
	for _, r := range f.Records(opList) {
		if r.Query.Get("limit") != "25" {
			t.Errorf("%v", r.Query)
		}
	}
	_, err := d.List(t.Context(), "No Pool")
	is(t, err, gputrain.ErrInvalid, "list")
}
