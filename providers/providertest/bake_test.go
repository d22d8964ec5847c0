package providertest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

// An oven keeps images beside a simulated cloud, with a flaw.
type oven struct {
	flaw string

	mu     sync.Mutex
	images []driver.BakedImage
}

// A bakery is a driver that makes images.
type bakery struct {
	providertestDriver
	oven *oven
}

func (d bakery) Bake(ctx context.Context, req driver.Bake) (driver.BakedImage, error) {
	if d.oven.flaw != "not recorded" {
		if err := req.Pool.Record(driver.Resource{Kind: "image", Name: req.Name}); err != nil && d.oven.flaw != "record ignored" {
			return driver.BakedImage{}, err
		}
	}
	d.oven.mu.Lock()
	defer d.oven.mu.Unlock()
	b := driver.BakedImage{Provider: "sim", Account: d.Capabilities().Account, ID: "image-" + req.Name, Name: req.Name, Key: req.Key, Base: "base", Created: time.Now(), HourlyUSD: driver.USD(0)}
	d.oven.images = append(d.oven.images, b)
	if d.oven.flaw == "another" {
		b.Name = "another"
	}
	return b, nil
}

func (d bakery) BakedImages(context.Context) ([]driver.BakedImage, error) {
	d.oven.mu.Lock()
	defer d.oven.mu.Unlock()
	return slices.Clone(d.oven.images), nil
}

func (d bakery) DeleteBaked(_ context.Context, ids ...string) error {
	d.oven.mu.Lock()
	defer d.oven.mu.Unlock()
	before := len(d.oven.images)
	if d.oven.flaw == "not deleted" {
		return nil
	}
	d.oven.images = slices.DeleteFunc(d.oven.images, func(b driver.BakedImage) bool { return slices.Contains(ids, b.ID) })
	if d.oven.flaw == "deleted once" && len(d.oven.images) == before {
		return errors.New("there is none")
	}
	return nil
}

func (d bakery) Offers(ctx context.Context, q driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		for o, err := range d.providertestDriver.Offers(ctx, q) {
			d.oven.mu.Lock()
			b, ok := driver.Newest(d.oven.images, func(b driver.BakedImage) bool { return b.Key == q.Baked })
			d.oven.mu.Unlock()
			if ok && d.oven.flaw != "not offered" {
				o.StartFrom(b)
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

func (d bakery) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	d.oven.mu.Lock()
	there := slices.ContainsFunc(d.oven.images, func(b driver.BakedImage) bool { return b.ID == req.Offer.Baked })
	d.oven.mu.Unlock()
	if req.Offer.Baked != "" && !there && d.oven.flaw != "launched without" {
		return nil, &driver.Error{Provider: "sim", Op: "launch", Kind: driver.ErrNotFound, Err: errors.New("no such image")}
	}
	return d.providertestDriver.Launch(ctx, req)
}

func (d bakery) List(ctx context.Context, poolID string) ([]driver.Resource, error) {
	all, err := d.providertestDriver.List(ctx, poolID)
	d.oven.mu.Lock()
	defer d.oven.mu.Unlock()
	for _, b := range d.oven.images {
		if d.oven.flaw == "still the pool's" {
			all = append(all, driver.Resource{Provider: "sim", Kind: "image", ID: b.ID, Name: b.Name, Pool: poolID})
		}
	}
	return all, err
}

func (d bakery) Release(ctx context.Context, pool driver.PoolInfo) error {
	if d.oven.flaw == "released" {
		d.oven.mu.Lock()
		d.oven.images = nil
		d.oven.mu.Unlock()
	}
	return d.providertestDriver.Release(ctx, pool)
}

// The checks of images pass for a sound driver, and each flaw makes one fail.
func TestBakeFlaws(t *testing.T) {
	for _, tt := range []struct{ flaw, check, says string }{
		{"", "images of machines", ""},
		{"", "image that is not finished", ""},
		{"not recorded", "images of machines", "has recorded no resource of kind image"},
		{"another", "images of machines", "returns {Provider:sim"},
		{"still the pool's", "images of machines", "a finished image is none of the pool's"},
		{"not offered", "images of machines", "want Baked, and a warning"},
		{"released", "images of machines", "it has 0 images; want 1"},
		{"not deleted", "images of machines", "it has 1 images; want 0"},
		{"deleted once", "images of machines", "of an image that is gone"},
		{"launched without", "images of machines", "from an image that was deleted"},
		{"record ignored", "image that is not finished", "could not record"},
	} {
		t.Run(tt.flaw+tt.check, func(t *testing.T) {
			elsewhere := newStranger(t)
			bubble.Test(t, func(t *testing.T) {
				o := &oven{flaw: tt.flaw}
				h := harness(t, flaw{driver: func(d providertestDriver) driver.Driver { return bakery{d, o} }})
				h.stranger = elsewhere
				said := strings.Join(watch(t, named(t, tt.check), h), "\n")
				if (said == "") != (tt.says == "") || !strings.Contains(said, tt.says) {
					t.Errorf("%q; want %q", said, tt.says)
				}
			})
		})
	}
}
