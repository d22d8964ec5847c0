package inventory

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

// A baker is a cloud whose image, if it is not finished, ends with Release.
type baker struct {
	*cloud
	fails      error
	unfinished bool              // guarded by mu, as is released
	released   []driver.Resource // Made of the last Release
}

func (b *baker) Bake(_ context.Context, req driver.Bake) (driver.BakedImage, error) {
	for _, id := range []string{"", "img-1"} {
		if err := req.Pool.Record(driver.Resource{Kind: "image", Name: req.Name, ID: id, HourlyUSD: driver.USD(2)}); err != nil {
			return driver.BakedImage{}, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unfinished = b.fails != nil
	return driver.BakedImage{ID: "img-1", Name: req.Name, Key: req.Key}, b.fails
}

func (b *baker) BakedImages(context.Context) ([]driver.BakedImage, error) { return nil, nil }
func (b *baker) DeleteBaked(context.Context, ...string) error             { return nil }

func (b *baker) List(ctx context.Context, id string) ([]driver.Resource, error) {
	all, err := b.cloud.List(ctx, id)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unfinished {
		all = append(all, driver.Resource{Kind: "image", ID: "img-1", Name: "image-1", Pool: "p-1"})
	}
	return all, err
}

func (b *baker) Release(ctx context.Context, pool driver.PoolInfo) error {
	b.mu.Lock()
	b.released, b.unfinished = pool.Made, false
	b.mu.Unlock()
	return b.cloud.Release(ctx, pool)
}

// The ledger knows an image before it is made. A finished one is the pool's no more, and one that is not is released
// with the pool, also by Reap.
func TestBake(t *testing.T) {
	for _, fails := range []error{nil, errCut} {
		synctest.Test(t, func(t *testing.T) {
			b := &baker{cloud: &cloud{}, fails: fails}
			dir := folder(t)
			inv := New(Account{Provider: "acme", Driver: b}, pool(), &heard{})
			if err := inv.Begin(dir, []byte("key")); err != nil {
				t.Fatal(err)
			}
			if _, err := inv.Launch(t.Context(), request(inv, 0), func() {}); err != nil {
				t.Fatal(err)
			}
			made, err := Bake(t.Context(), inv, b, "id-p-1-0", "k", "image-1")
			if !errors.Is(err, fails) || made.Name != "image-1" {
				t.Fatalf("%+v, %v", made, err)
			}
			want := ledger.Gone
			if fails != nil {
				want = ledger.Created
			}
			if got := rows(t, dir)["image image-1"]; got != want {
				t.Errorf("the image's row is %v; want %v", got, want)
			}
			if _, hourly := inv.shared.cost(inv.lag.end()); (hourly == 2) != (fails != nil) {
				t.Errorf("the pool costs $%v an hour for its image", hourly)
			}
			if err := inv.Close(false); err != nil { // the program dies
				t.Fatal(err)
			}
			ended, err := NewReaper(dir, []Account{{Provider: "acme", Driver: b}}, nil).Run(t.Context())
			isImage := func(r driver.Resource) bool { return r.Kind == "image" && r.ID == "img-1" }
			if err != nil || slices.ContainsFunc(ended, isImage) != (fails != nil) || slices.ContainsFunc(b.released, isImage) != (fails != nil) {
				t.Errorf("Reap ends %+v, %v, and Release gets %+v", ended, err, b.released)
			}
			if ids, err := dir.Pools(); err != nil || len(ids) != 0 {
				t.Errorf("the ledgers %v are left, %v", ids, err)
			}
		})
	}
}

// Machines start from the usual image if the baked one was deleted meanwhile, and only then.
func TestLaunchWithoutTheBakedImage(t *testing.T) {
	for _, tt := range []struct {
		baked    string
		fails    error
		launches int
	}{
		{"img-1", &driver.Error{Kind: driver.ErrNotFound}, 2},
		{"", &driver.Error{Kind: driver.ErrNotFound}, 1},
		{"img-1", &driver.Error{Kind: driver.ErrNoCapacity}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, heard, launches := &cloud{}, &heard{}, 0
			c.before = func(op string) error {
				if op == "launch" {
					launches++
					if launches == 1 {
						return tt.fails
					}
				}
				return nil
			}
			inv, _ := begun(t, c, heard)
			req := request(inv, 0)
			req.Offer.Baked = tt.baked
			got, err := inv.Launch(t.Context(), req, func() {})
			if launches != tt.launches || (err == nil) != (tt.launches == 2) || len(got.Machines) != tt.launches-1 || slices.Contains(heard.trouble, "image") != (tt.launches == 2) {
				t.Errorf("%+v: %d launches, %+v, %v, %q", tt, launches, got, err, heard.trouble)
			}
			for _, m := range c.machines {
				if m.Offer.Baked != "" {
					t.Errorf("%+v was started from the image", m)
				}
			}
		})
	}
}
