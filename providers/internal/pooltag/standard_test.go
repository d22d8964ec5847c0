package pooltag_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// fullTag returns a tag with every field set.
func fullTag() pooltag.Tag {
	at := time.Unix(1_790_000_000, 0)
	return pooltag.Tag{
		Pool: "my-pool-x2", Owner: "host.12ab/99/1790000000", Name: "my-pool-x2-3-r1", Rank: 3, Lease: 90 * time.Second,
		Created: at, Expires: at.Add(time.Hour), Until: at.Add(time.Minute), HostKey: cloudtest.PoolKey,
	}
}

func TestTagsComeBackAsTheyWere(t *testing.T) {
	full, shared, foreign := fullTag(), fullTag(), fullTag()
	shared.Name, shared.Rank, shared.HostKey = "", 0, ""
	foreign.Owner = "Zoë's_laptop/1/2"
	for name, tag := range map[string]pooltag.Tag{
		"all of it": full, "of no machine": shared, "a pool alone": {Pool: "p1"}, "an owner of other letters": foreign,
	} {
		if got := pooltag.FromPairs(tag.Pairs()); got != tag {
			t.Errorf("%s, by pairs: %+v", name, got)
		}
		among := append([]string{"web", "gputrain-", "gputrain-node"}, tag.Words()...)
		if got := pooltag.FromWords(among); got != tag {
			t.Errorf("%s, by words: %+v", name, got)
		}
	}
}

func TestTagsKeepToTheirLimits(t *testing.T) {
	tag := fullTag()
	if got := slices.Sorted(maps.Keys(tag.Pairs())); len(got) != 8 {
		t.Errorf("%d pairs: %v", len(got), got)
	}
	for key, value := range tag.Pairs() {
		if len(key) > 17 || len(value) > 128 {
			t.Errorf("%q=%q is too long", key, value)
		}
	}
	word := regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	for _, w := range tag.Words() {
		if !word.MatchString(w) {
			t.Errorf("%q is not a word", w)
		}
	}
	tag.Owner = strings.Repeat("x", 128)
	if got := pooltag.FromPairs(tag.Pairs()); got.Owner != "" || got.Name != tag.Name {
		t.Errorf("an owner that is too long: %+v", got)
	}
	tag = pooltag.Tag{Pool: "p1", Lease: 1500 * time.Millisecond}
	if got := pooltag.FromPairs(tag.Pairs()); got.Lease != 2*time.Second {
		t.Errorf("a lease of parts of a second is %v", got.Lease)
	}
}

// Tags without a valid pool are not gputrain's, and malformed values are ignored.
func TestForeignTags(t *testing.T) {
	for name, pairs := range map[string]map[string]string{
		"none": nil, "no pool": {"gputrain-node": "p1-0"}, "no ID": {"gputrain-pool": "P1"}, "a blank": {"gputrain-pool": "p1 "},
	} {
		if got := pooltag.FromPairs(pairs); got != (pooltag.Tag{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	got := pooltag.FromPairs(map[string]string{
		"gputrain-pool": "p1", "gputrain-node": "p2-7", "gputrain-lease": "-1", "gputrain-created": "soon",
		"gputrain-expires": "99999999999999999999", "gputrain-until": "1e9",
	})
	if want := (pooltag.Tag{Pool: "p1", Name: "p2-7"}); got != want {
		t.Errorf("%+v", got)
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		name, pool, node string
		rank             int
		ok               bool
	}{
		{"gputrain-p1-0", "p1", "p1-0", 0, true},
		{"gputrain-my-pool-12", "my-pool", "my-pool-12", 12, true},
		{"gputrain-p1-3-r2", "p1", "p1-3-r2", 3, true},
		{"gputrain-p1-3-4", "p1-3", "p1-3-4", 4, true},
		{name: "gputrain-p1"}, {name: "gputrain-p1-r2"}, {name: "gputrain-1p-0"}, {name: "gputrain-P1-0"}, {name: "p1-0"},
		{name: "gputrain-p1-0 "}, {name: "gputrain-p1-1234567"}, {name: "gputrain-" + strings.Repeat("p", 41) + "-0"}, {name: ""},
	} {
		pool, node, rank, ok := pooltag.ParseName(tt.name)
		if pool != tt.pool || node != tt.node || rank != tt.rank || ok != tt.ok {
			t.Errorf("ParseName(%q) = %q, %q, %d, %v", tt.name, pool, node, rank, ok)
		}
		if got, want := pooltag.FromName(tt.name), (pooltag.Tag{Pool: tt.pool, Name: tt.node, Rank: tt.rank}); got != want {
			t.Errorf("FromName(%q) = %+v", tt.name, got)
		}
	}
	if id, ok := pooltag.PoolOf(pooltag.SharedName("my-pool")); id != "my-pool" || !ok {
		t.Errorf("PoolOf = %q, %v", id, ok)
	}
	for _, name := range []string{"gputrain-", "gputrain-A", "my-pool", "mine gputrain-p1"} {
		if id, ok := pooltag.PoolOf(name); ok {
			t.Errorf("PoolOf(%q) = %q", name, id)
		}
	}
}

// A long name has the times of creation and of the end, if there is room for them. A pool's own name may look like such times.
func TestLongNames(t *testing.T) {
	created, expires := time.Unix(1_790_000_000, 999), time.Unix(1_790_003_600, 0)
	for _, tt := range []struct {
		pool, node string
		rank       int
		expires    time.Time
		limit      int
		want       string
	}{
		{"p1", "p1-0", 0, time.Time{}, 0, "gputrain-p1-0-ctlpwu8"},
		{"p1", "p1-3-r2", 3, expires, 0, "gputrain-p1-3-r2-ctlpwu8-x2s0"},
		{"p1", "p1-3-r2", 3, expires, 29, "gputrain-p1-3-r2-ctlpwu8-x2s0"},
		{"p1", "p1-3-r2", 3, expires, 28, "gputrain-p1-3-r2"},
		{"p-0-ctlpwu8-x2s0", "p-0-ctlpwu8-x2s0-1", 1, time.Time{}, 0, "gputrain-p-0-ctlpwu8-x2s0-1-ctlpwu8"},
		{"p-0-ctlpwu8-x2s0", "p-0-ctlpwu8-x2s0-1", 1, time.Time{}, 34, "gputrain-p-0-ctlpwu8-x2s0-1"},
	} {
		tag := pooltag.Tag{Pool: tt.pool, Name: tt.node, Rank: tt.rank, Created: created, Expires: tt.expires}
		name := tag.LongName(tt.limit)
		if name != tt.want {
			t.Errorf("LongName(%d) of %+v = %q, want %q", tt.limit, tag, name, tt.want)
		}
		want := pooltag.Tag{Pool: tt.pool, Name: tt.node, Rank: tt.rank}
		if name != "gputrain-"+tt.node {
			want.Created, want.Expires = time.Unix(1_790_000_000, 0), tt.expires
		}
		if got := pooltag.FromName(name); got != want {
			t.Errorf("FromName(%q) = %+v, want %+v", name, got, want)
		}
		if pool, node, rank, ok := pooltag.ParseName(name); pool != tt.pool || node != tt.node || rank != tt.rank || !ok {
			t.Errorf("ParseName(%q) = %q, %q, %d, %v", name, pool, node, rank, ok)
		}
	}
	if name := (pooltag.Tag{Pool: "p1", Name: "p1-0", Expires: expires}).LongName(0); name != "gputrain-p1-0" {
		t.Errorf("without a time of creation the name is %q", name)
	}
	for _, name := range []string{"gputrain-p1-0-c", "gputrain-p1-0-c0tlpwu8", "gputrain-p1-0-x2s0", "gputrain-p1-0-ctlpwu8-x", "gputrain-p1-ctlpwu8", "gputrain-p1-0-ctlpwu8aaa", "gputrain-p1-0-cTLPWU8"} {
		if tag := pooltag.FromName(name); tag != (pooltag.Tag{}) {
			t.Errorf("FromName(%q) = %+v", name, tag)
		}
	}
	if err := pooltag.CheckNode("p1", "p1-0-ctlpwu8"); err == nil {
		t.Error("a node's name may have the times of a machine's name")
	}
}

func FuzzFromWords(f *testing.F) {
	f.Add(strings.Join(fullTag().Words(), "\n"))
	f.Add("gputrain-pool-p1\ngputrain-owner-a_2Fb_ZZ_\ngputrain-lease-9223372036854775807")
	f.Add("gputrain-pool-\ngputrain-node-gputrain-p1-0\n\xff")
	f.Fuzz(func(t *testing.T, text string) { steady(t, pooltag.FromWords(strings.Split(text, "\n"))) })
}

func FuzzFromPairs(f *testing.F) {
	f.Add("p1", "p1-0", "host/1/2", "60", "1790000000", cloudtest.PoolKey)
	f.Add("P", "p1-0-r1", "\x00", "-1", "1e99", "é")
	f.Fuzz(func(t *testing.T, pool, node, owner, lease, created, key string) {
		steady(t, pooltag.FromPairs(map[string]string{
			"gputrain-pool": pool, "gputrain-node": node, "gputrain-owner": owner, "gputrain-lease": lease,
			"gputrain-created": created, "gputrain-host-key": key,
		}))
	})
}

func FuzzParseName(f *testing.F) {
	f.Add("gputrain-p1-0-r1")
	f.Add("gputrain-a-0-0-0")
	f.Add("gputrain-p1-0-ctlpwu8-x2s0")
	f.Add("gputrain-p1-0-ctlpwu8-0-c1")
	f.Fuzz(func(t *testing.T, name string) {
		pool, node, rank, ok := pooltag.ParseName(name)
		if ok && (!strings.HasPrefix(name, pooltag.Prefix+node) || !strings.HasPrefix(node, pool+"-") || rank < 0) || !ok && pool+node != "" {
			t.Errorf("ParseName(%q) = %q, %q, %d, %v", name, pool, node, rank, ok)
		}
		tag := pooltag.FromName(name)
		if tag.Pool != pool || tag.Name != node || tag.Rank != rank {
			t.Errorf("FromName(%q) = %+v", name, tag)
		}
		if ok && tag.LongName(0) != name {
			t.Errorf("%q is written again as %q", name, tag.LongName(0))
		}
	})
}

// A node's name comes back from the name of its machine, whatever the pool's name is.
func FuzzLongName(f *testing.F) {
	f.Add("p1", 0, 0, int64(1_790_000_000), int64(0), 0)
	f.Add("p-0-ctlpwu8", 7, 2, int64(1), int64(1_790_000_000), 40)
	f.Fuzz(func(t *testing.T, pool string, rank, again int, created, expires int64, limit int) {
		node := fmt.Sprintf("%s-%d", pool, rank)
		if again > 0 {
			node += fmt.Sprintf("-r%d", again)
		}
		if pooltag.CheckPool(pool) != nil || pooltag.CheckNode(pool, node) != nil {
			return
		}
		tag := pooltag.Tag{Pool: pool, Name: node, Rank: rank, Created: time.Unix(created, 0), Expires: time.Unix(expires, 0)}
		name := tag.LongName(limit)
		if limit > 0 && len(name) > limit && name != pooltag.Prefix+node {
			t.Errorf("%q is longer than %d", name, limit)
		}
		got := pooltag.FromName(name)
		if got.Pool != pool || got.Name != node || got.Rank != rank {
			t.Errorf("%q of %+v is read as %+v", name, tag, got)
		}
		if name != pooltag.Prefix+node && (got.Created != tag.Created || got.Expires.Unix() != max(expires, created+1)) {
			t.Errorf("%q of %+v is read as %+v", name, tag, got)
		}
	})
}

// steady checks that a tag that was read is empty, or is the same after a write and a read.
func steady(t *testing.T, tag pooltag.Tag) {
	t.Helper()
	if tag.Pool == "" {
		if tag != (pooltag.Tag{}) {
			t.Errorf("without a pool: %+v", tag)
		}
		return
	}
	short := pooltag.FromPairs(tag.Pairs()) // without values that are too long to be written
	if again := pooltag.FromWords(tag.Words()); again != short {
		t.Errorf("%+v is read again as %+v", short, again)
	}
	if again := pooltag.FromPairs(short.Pairs()); again != short {
		t.Errorf("%+v is read again as %+v", short, again)
	}
}
