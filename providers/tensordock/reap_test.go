package tensordock

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// Reap on a computer that has no ledger of a pool ends its machines once their names say that the TTL is over.
func TestReapByName(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	now := time.Now()
	name := func(pool string, created, expires time.Time) string {
		return pooltag.Tag{Pool: pool, Name: pool + "-0", Created: created, Expires: expires}.LongName(0)
	}
	kept := []string{
		"gputrain-old-0", // of another version
		name("endless", now.AddDate(-1, 0, 0), time.Time{}),
		name("alive", now.Add(-time.Hour), now.Add(time.Hour)),
	}
	f.Do(func() {
		for i, n := range append(kept, name("over", now.Add(-3*time.Hour), now.Add(-2*time.Hour))) {
			id := fmt.Sprintf("machine-%d", i)
			f.instances.Put(nil, id, &rental{row: row{"id": id, "name": n, "status": "running", "type": "virtualmachine"}})
		}
	})
	ended, err := gputrain.StateDir(t.TempDir()).Reap(t.Context(), f.config())
	if err != nil || len(ended) != 1 || ended[0].Pool != "over" || ended[0].Name != "over-0" || ended[0].Created.IsZero() {
		t.Errorf("ended %+v, %v", ended, err)
	}
	var left []string
	f.Do(func() {
		for _, r := range f.instances.All(nil) {
			left = append(left, r.row["name"].(string))
		}
	})
	if slices.Sort(left); !slices.Equal(left, slices.Sorted(slices.Values(kept))) {
		t.Errorf("left %q, want %q", left, kept)
	}
}
