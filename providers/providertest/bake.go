package providertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

func bakeChecks() []check {
	return []check{
		{"images of machines", nil, bakeImage},
		{"image that is not finished", nil, bakeUnfinished},
	}
}

// A baker is a pool of gputrain.Bake with a machine, and a driver that makes images.
type baker struct {
	*pool
	driver.Baker
	req driver.Bake //secretvet:ignore nothing formats a baker
}

// newBaker returns nil if the driver makes no images.
func (c *trial) newBaker() *baker {
	c.Helper()
	info := c.newInfo()
	info.ID = "bake-" + strings.ToLower(rand.Text()[:10])
	p := c.poolOf(info)
	d, ok := p.Driver.(driver.Baker)
	if !ok {
		return nil
	}
	if err := p.Prepare(c.Context(), p.now()); err != nil {
		c.Fatalf("Driver.Prepare: %v", err)
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	b := &baker{pool: p, Baker: d}
	b.req = driver.Bake{Instance: p.running(p.launch(1))[0], Key: hex.EncodeToString(key), Name: "gputrain-baked-" + strings.TrimPrefix(info.ID, "bake-")}
	return b
}

// images returns the images with the pool's key that BakedImages reports, once there are so many.
func (b *baker) images(want int) (own []driver.BakedImage) {
	b.Helper()
	err := b.eventually(b.caps.ListLag+eventTimeout, func() error {
		all, err := b.BakedImages(b.Context())
		if err != nil {
			b.Fatalf("Baker.BakedImages: %v", err)
		}
		if own = slices.DeleteFunc(all, func(i driver.BakedImage) bool { return i.Key != b.req.Key }); len(own) != want {
			return fmt.Errorf("it has %d images; want %d: %+v", len(own), want, own)
		}
		return nil
	})
	if err != nil {
		b.Errorf("Baker.BakedImages: %v", err)
	}
	return own
}

// offer returns the first offer for the pool's key that the harness's spec allows.
func (b *baker) offer() driver.Offer {
	b.Helper()
	query := b.h.Spec.Query()
	query.Baked = b.req.Key
	for o, err := range b.Offers(b.Context(), query) {
		if err != nil {
			b.Fatalf("Driver.Offers: %v", err)
		}
		if o.Rejected == "" && o.Spot == (b.h.Spec.Allocation == driver.Spot) && o.Region == b.req.Instance.Offer.Region {
			return o
		}
	}
	b.Fatal("Driver.Offers has no offer for a query with Baked")
	return driver.Offer{}
}

// listedImages returns the pool's resources of kind "image" that List reports.
func (b *baker) listedImages() []driver.Resource {
	b.Helper()
	list, err := b.List(b.Context(), b.info.ID)
	if err != nil {
		b.Fatalf("Driver.List: %v", err)
	}
	return slices.DeleteFunc(list, func(r driver.Resource) bool { return r.Kind != "image" })
}

func bakeImage(c *trial) {
	b := c.newBaker()
	if b == nil {
		return
	}
	recorded := false
	b.req.Pool = b.info.WithRecord(func(r driver.Resource) error {
		if !recorded {
			recorded = r.Kind == "image" && r.Name != ""
			if all := b.listedImages(); len(all) > 0 {
				c.Errorf("when Baker.Bake records the image, there is %+v already", all)
			}
		}
		return b.record(r)
	})
	made, err := b.Bake(c.Context(), b.req)
	if err != nil {
		c.Fatalf("Baker.Bake: %v", err)
	}
	c.Cleanup(func() {
		if err := b.DeleteBaked(context.WithoutCancel(b.Context()), made.ID); err != nil {
			c.Errorf("Baker.DeleteBaked: %v", err)
		}
	})
	if !recorded {
		c.Error("Baker.Bake has recorded no resource of kind image by PoolInfo.Record")
	}
	if made.Provider == "" || made.Account != b.caps.Account || made.ID == "" || made.Name != b.req.Name || made.Key != b.req.Key || made.Base == "" || made.Created.After(time.Now().Add(time.Minute)) {
		c.Errorf("Baker.Bake of %+v returns %+v", b.req, made)
	}
	if own := b.images(1); len(own) == 1 && own[0] != made {
		c.Errorf("Baker.BakedImages has %+v; Bake has returned %+v", own[0], made)
	}
	if all := b.listedImages(); len(all) > 0 {
		c.Errorf("a finished image is none of the pool's, and Driver.List has %+v", all)
	}
	o := b.offer()
	if o.Baked != made.ID || len(o.Warnings) == 0 {
		c.Errorf("the offer for a query with the image's key is %+v; want Baked, and a warning about it", o)
	}
	// Its machines start, and the end of its pool leaves it alone.
	later := c.poolOf(c.newInfo())
	if err := later.Prepare(c.Context(), later.now()); err != nil {
		c.Fatalf("Driver.Prepare: %v", err)
	}
	req := later.request()
	req.Offer = o
	got, err := later.Launch(c.Context(), req)
	if err != nil || len(got) != 1 {
		c.Fatalf("Driver.Launch of an offer with Baked: %+v, %v", got, err)
	}
	in := later.running(got)[0]
	if err := c.eventually(eventTimeout, func() error { return later.reach(in) }); err != nil {
		c.Errorf("a machine that was launched from an image is not reached: %v", err)
	}
	later.end()
	b.end()
	b.images(1)
	if err := b.DeleteBaked(c.Context(), made.ID); err != nil {
		c.Errorf("Baker.DeleteBaked: %v", err)
	}
	b.images(0)
	if err := b.DeleteBaked(c.Context(), made.ID); err != nil {
		c.Errorf("Baker.DeleteBaked of an image that is gone: %v", err)
	}
	another := c.poolOf(c.newInfo())
	if err := another.Prepare(c.Context(), another.now()); err != nil {
		c.Fatalf("Driver.Prepare: %v", err)
	}
	req = another.request()
	req.Offer = o
	if got, err := another.Launch(c.Context(), req); !c.failure("Driver.Launch from an image that was deleted", err, driver.ErrNotFound) || len(got) > 0 {
		c.Errorf("it has returned %+v", got)
	}
	if o := b.offer(); o.Baked != "" {
		c.Errorf("the image was deleted, and an offer still has %q", o.Baked)
	}
}

// bakeUnfinished refuses the record of the image, and gives up at once: nothing is left after Release.
func bakeUnfinished(c *trial) {
	b := c.newBaker()
	if b == nil {
		return
	}
	refused := errors.New("the ledger's disk is full")
	b.req.Pool = b.info.WithRecord(func(driver.Resource) error { return refused })
	if _, err := b.Bake(c.Context(), b.req); err == nil {
		c.Error("Baker.Bake has made an image that it could not record")
	}
	if all := b.listedImages(); len(all) > 0 {
		c.Errorf("Baker.Bake has made what it could not record: %+v", all)
	}
	b.end()
	b.images(0)
}
