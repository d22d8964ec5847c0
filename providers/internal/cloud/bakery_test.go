package cloud_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// images are those of a cloud in memory.
type images struct {
	all    []cloud.Image
	finish func(*cloud.Image) error
}

func (c *images) MakeImage(_ context.Context, order cloud.ImageOrder) (string, error) {
	c.all = append(c.all, cloud.Image{BakedImage: driver.BakedImage{ID: "img-1", Name: order.Name}, Tag: order.Tag, State: cloud.ImageMade})
	return "img-1", nil
}

func (c *images) Images(ctx context.Context) ([]cloud.Image, error) {
	return slices.Clone(c.all), ctx.Err()
}

func (c *images) FinishImage(ctx context.Context, _ cloud.Image, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.all[0].Key = key
	return c.finish(&c.all[0])
}

func (c *images) DeleteImage(ctx context.Context, image cloud.Image) error {
	c.all = slices.DeleteFunc(c.all, func(i cloud.Image) bool { return i.ID == image.ID })
	return ctx.Err()
}

// An image that is being finished when the caller's context ends is returned. One of which that is not known is deleted:
// nothing but a finished image belongs to no pool.
func TestFinishedImageIsNotLost(t *testing.T) {
	lost := errors.New("no answer")
	for name, tt := range map[string]struct {
		finish func(i *cloud.Image, cancel func()) error
		made   bool
	}{
		"cancelled meanwhile":       {func(i *cloud.Image, cancel func()) error { cancel(); i.Finished = true; return nil }, true},
		"cancelled, no answer":      {func(i *cloud.Image, cancel func()) error { cancel(); i.Finished = true; return lost }, true},
		"never reported":            {func(*cloud.Image, func()) error { return nil }, false},
		"cancelled, never reported": {func(_ *cloud.Image, cancel func()) error { cancel(); return lost }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c := &images{finish: func(i *cloud.Image) error { return tt.finish(i, cancel) }}
				b := &cloud.Bakery{
					Provider: "acme", Images: c, Capabilities: func() driver.Capabilities { return driver.Capabilities{ListLag: 10 * time.Second} },
					Fail: func(_ string, err error) error { return err },
				}
				got, err := b.Bake(ctx, driver.Bake{Pool: cloudtest.Info("bake-1"), Key: "k", Name: "image-1"})
				if (err == nil) != tt.made || (got.ID == "img-1") != tt.made {
					t.Errorf("got %+v, %v", got, err)
				}
				if (len(c.all) == 1) != tt.made {
					t.Errorf("the cloud has %+v", c.all)
				}
			})
		})
	}
}
