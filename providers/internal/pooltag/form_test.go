package pooltag

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

var everyField = []Key{
	{Managed, "managed"}, {Pool, "pool"}, {Node, "node"}, {Rank, "rank"}, {Owner, "owner"}, {Lease, "lease"},
	{Created, "created"}, {Expires, "expires"}, {Until, "until"}, {HostKey, "key"},
}

func everything() Tag {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	return Tag{
		Pool: "p1", Owner: "host/1/2", Name: "p1-3-r1", Rank: 3, Lease: 90500 * time.Millisecond,
		Created: at, Expires: at.Add(time.Hour), Until: at.Add(time.Minute), HostKey: "ssh-ed25519 AAAA",
	}
}

func TestForms(t *testing.T) {
	full := everything()
	for _, tt := range []struct {
		name    string
		form    Form
		tag     Tag
		want    string // key=value, separated by blanks
		changes func(*Tag)
	}{
		{"Unix time, rounded up", Form{Keys: everyField}, full,
			"managed=true pool=p1 node=p1-3-r1 rank=3 owner=host/1/2 lease=91 created=1893553445 expires=1893557045 until=1893553505 key=ssh-ed25519_AAAA",
			func(got *Tag) { got.Lease = 91 * time.Second }},
		{"RFC 3339, rounded down", Form{Keys: everyField[:8], RFC3339: true, Lease: Down}, full,
			"managed=true pool=p1 node=p1-3-r1 rank=3 owner=host/1/2 lease=90 created=2030-01-02T03:04:05Z expires=2030-01-02T04:04:05Z",
			func(got *Tag) { got.Lease, got.Until, got.HostKey = 90*time.Second, time.Time{}, "" }},
		{"exact, and the rank by the name", Form{Keys: []Key{{Lease, "l"}, {Node, "n"}, {Pool, "p"}}, Lease: Exact}, full,
			"l=90.5 n=p1-3-r1 p=p1", func(got *Tag) { *got = Tag{Pool: "p1", Name: "p1-3-r1", Rank: 3, Lease: full.Lease} }},
		{"of no machine", Form{Keys: everyField}, Tag{Pool: "p1"}, "managed=true pool=p1", nil},
		{"an owner even if there is none", Form{Keys: everyField, Empty: []Field{Owner}}, Tag{Pool: "p1"}, "managed=true pool=p1 owner=", nil},
		{"what is too long is left out", Form{Keys: everyField[:6], Most: 7}, full, "managed=true pool=p1 node=p1-3-r1 rank=3 lease=91",
			func(got *Tag) { *got = Tag{Pool: "p1", Name: "p1-3-r1", Rank: 3, Lease: 91 * time.Second} }},
		{"what is not allowed is left out", Form{Keys: everyField[:6], Allowed: regexp.MustCompile(`^[a-z0-9-]*$`)}, full,
			"managed=true pool=p1 node=p1-3-r1 rank=3 lease=91",
			func(got *Tag) { *got = Tag{Pool: "p1", Name: "p1-3-r1", Rank: 3, Lease: 91 * time.Second} }},
	} {
		var pairs []string
		for _, p := range tt.form.Pairs(tt.tag) {
			pairs = append(pairs, p.Key+"="+strings.ReplaceAll(p.Value, " ", "_"))
		}
		if got := strings.Join(pairs, " "); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
		want := tt.tag
		if tt.changes != nil {
			tt.changes(&want)
		}
		got := tt.form.ReadMap(tt.form.Map(tt.tag))
		for _, at := range []*time.Time{&got.Created, &got.Expires, &got.Until} {
			if !at.IsZero() {
				*at = at.UTC()
			}
		}
		if got != want {
			t.Errorf("%s is read as\n     %+v\nwant %+v", tt.name, got, want)
		}
	}
}

func TestFormsReadNothingOfOthers(t *testing.T) {
	form := Form{Keys: everyField, RFC3339: true}
	for name, pairs := range map[string]map[string]string{
		"nothing": nil, "no mark": {"pool": "p1"}, "another mark": {"managed": "yes", "pool": "p1"}, "no ID of a pool": {"managed": "true", "pool": "P 1"},
	} {
		if got := form.ReadMap(pairs); got != (Tag{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	odd := map[string]string{"managed": "true", "pool": "p1", "rank": "-1", "lease": "1e9", "created": "soon", "expires": "1893553445"}
	if got := form.ReadMap(odd); got != (Tag{Pool: "p1"}) {
		t.Errorf("what is not understood: %+v", got)
	}
}

func TestLines(t *testing.T) {
	form := LineForm{Prefix: "mine:", Separator: ":", Most: 60, Fields: []Field{Pool, Node, Rank, Owner, Lease, Expires}}
	full := everything()
	for want, tag := range map[string]Tag{
		"mine:p1:3-r1:3:host/1/2:91:1893557045": full,
		"mine:p1::0::0:":                        {Pool: "p1"},
		"mine:p1:=other:5::0:":                  {Pool: "p1", Name: "other", Rank: 5},
		"mine:p1:3-r1:3::91:1893557045":         func() Tag { long := full; long.Owner = strings.Repeat("o", 40); return long }(),
	} {
		if got := form.String(tag); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		got, ok := form.Parse(want)
		if !ok || got.Pool != tag.Pool || got.Name != tag.Name || got.Rank != tag.Rank || !got.Expires.Equal(tag.Expires) {
			t.Errorf("%s is read as %+v", want, got)
		}
	}
	for _, line := range []string{"", "mine", "mine:p1", "mine:P1::0::0:", "mine:p1::0::0::", "theirs:p1::0::0:"} {
		if got, ok := form.Parse(line); ok || got != (Tag{}) {
			t.Errorf("%q is read as %+v", line, got)
		}
	}
}

func TestResource(t *testing.T) {
	tag := everything()
	got := tag.Resource("acme", "machine", "m1")
	want := driver.Resource{
		Provider: "acme", Kind: "machine", ID: "m1", Name: tag.Name, Pool: tag.Pool, Owner: tag.Owner,
		Created: tag.Created, Lease: tag.Lease, Expires: tag.Expires, LeaseUntil: tag.Until,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
