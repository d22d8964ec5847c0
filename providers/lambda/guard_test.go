package lambda

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Guard ends what another computer's program has left once the TTL in its tags is over, and nothing before that.
func TestGuard(t *testing.T) {
	f := idle(t)
	d := cloudtest.Prepared(t, f.config())
	launch := func(pool string, expires time.Time) (id string) {
		req := cloudtest.Request(t, oneA10.Query(), cloudtest.AllOffers(t, d, oneA10.Query())[0], 0)
		req.Pool, req.Nodes[0].Name = cloudtest.Info(pool), pool+"-0"
		req.Pool.Expires = expires
		if err := d.Prepare(t.Context(), req.Pool); err != nil {
			t.Fatal(err)
		}
		got, err := d.Launch(t.Context(), req)
		return cloudtest.One(t, got, err).ID
	}
	lapsed, living := launch("lapsed", time.Now().Add(-time.Hour)), launch("living", time.Now().Add(time.Hour))
	for ended, err := range gputrain.StateDir(t.TempDir()).Guard(t.Context(), time.Hour, f.config()) {
		if err != nil {
			t.Error(err)
		}
		var ids []string
		for _, r := range ended {
			if r.Kind == "machine" {
				ids = append(ids, r.ID)
			}
		}
		if len(ids) != 1 || ids[0] != lapsed {
			t.Errorf("it ends %v; want %s, and not %s", ids, lapsed, living)
		}
		break
	}
}
