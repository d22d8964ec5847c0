package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// Images is the part of a [driver.Baker] that differs between clouds. Its methods return the errors
// of the cloud's client.
type Images interface {
	// MakeImage asks for an image of a machine, tagged with order.Tag in the same call, and returns
	// its ID. An error of no kind, or of ErrUnavailable, leaves open whether there is one: the
	// Bakery then looks for order.Name among Images.
	MakeImage(ctx context.Context, order ImageOrder) (id string, err error)
	// Images returns the images of all pools, finished or not. Others may be among them. An
	// incomplete answer is an error.
	Images(ctx context.Context) ([]Image, error)
	// FinishImage marks an image that is made as finished, with the key. It is idempotent.
	FinishImage(ctx context.Context, image Image, key string) error
	// DeleteImage deletes an image with everything that is stored for it. One that does not exist
	// may be ErrNotFound.
	DeleteImage(ctx context.Context, image Image) error
}

// An ImageOrder asks for an image of a machine.
type ImageOrder struct {
	driver.Bake
	Tag pooltag.Tag // of the pool, which owns the image until it is finished
}

// An Image is an image as the cloud reports it.
type Image struct {
	// BakedImage has no Provider and Account. Its Key is empty, or not yet valid, until it is finished.
	driver.BakedImage
	Tag      pooltag.Tag
	State    ImageState
	Reason   string // of the state, in the cloud's words
	Finished bool
}

// An ImageState is the state of an image.
type ImageState int

const (
	ImageUnknown ImageState = iota // a state that is not in the cloud's table
	ImageMaking                    // machines cannot be launched from it yet
	ImageMade
	ImageFailed // it will not be made
)

// A Bakery makes images of machines: what the methods of a [driver.Baker], and its List and Release,
// have to do with images.
type Bakery struct {
	Provider string
	Images   Images
	// Capabilities returns the driver's.
	Capabilities func() driver.Capabilities
	// Fail puts the errors of the cloud's client into a driver's form.
	Fail func(op string, err error) error
}

// imagePause is the time between two looks at an image that is being made, which takes minutes.
func imagePause() time.Duration { return 5 * Second }

// finishTimeout bounds how long it may take to finish an image that is made, or to delete it.
const finishTimeout = 10 * time.Minute

// Bake is that of [driver.Baker].
func (b *Bakery) Bake(ctx context.Context, req driver.Bake) (driver.BakedImage, error) {
	made, err := b.bake(ctx, req)
	return made, b.Fail("bake", err)
}

func (b *Bakery) bake(ctx context.Context, req driver.Bake) (driver.BakedImage, error) {
	if err := pooltag.CheckPool(req.Pool.ID); err != nil {
		return driver.BakedImage{}, err
	}
	r := driver.Resource{Kind: "image", Name: req.Name, Region: req.Instance.Offer.Region}
	if err := req.Pool.Record(r); err != nil {
		return driver.BakedImage{}, err
	}
	id, err := b.Images.MakeImage(ctx, ImageOrder{Bake: req, Tag: pooltag.Of(req.Pool, time.Now())})
	if id == "" && err == nil {
		err = errors.New("the cloud's answer names no image")
	}
	if id == "" && isOpen(b.Fail("bake", err)) {
		id, err = b.settle(ctx, req, err)
	}
	if err != nil {
		return driver.BakedImage{}, err
	}
	r.ID = id
	if err := req.Pool.Record(r); err != nil {
		return driver.BakedImage{}, err
	}
	image, err := b.await(ctx, id, func(i Image) bool { return i.State == ImageMade })
	if err != nil {
		return driver.BakedImage{}, err
	}
	if ctx.Err() != nil {
		return driver.BakedImage{}, context.Cause(ctx)
	}
	// From here on the image may belong to no pool: it is returned or deleted, whatever the caller waits for.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	finishErr := b.Images.FinishImage(ctx, image, req.Key)
	if finishErr != nil && !isOpen(b.Fail("bake", finishErr)) {
		return driver.BakedImage{}, finishErr
	}
	// Only the cloud's report shows that it is finished: the answer may be lost.
	for until := time.Now().Add(b.lag()); ; {
		asked := time.Now()
		found, err := b.await(ctx, id, func(i Image) bool { return i.State == ImageMade })
		switch {
		case err == nil && found.Finished:
			return b.finished(found), nil
		case err != nil || asked.After(until) || !retry.Sleep(ctx, Second):
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
			defer cancel()
			return driver.BakedImage{}, errors.Join(cmp.Or(finishErr, errors.New("the cloud does not report the image as finished")), err, b.delete(end, image))
		}
	}
}

// lag bounds the time until the cloud's lists have a new image.
func (b *Bakery) lag() time.Duration { return b.Capabilities().ListLag }

// settle looks for the image of a call whose answer was lost.
func (b *Bakery) settle(ctx context.Context, req driver.Bake, why error) (string, error) {
	return Search[string]{
		Pool: req.Pool, Name: req.Name, Why: why, Lag: b.lag(), Pause: Second,
		Find: func(ctx context.Context) (string, bool, error) {
			all, err := b.Images.Images(ctx)
			i := slices.IndexFunc(all, func(i Image) bool { return i.Name == req.Name && i.Tag.Pool == req.Pool.ID })
			if i < 0 {
				return "", false, err
			}
			return all[i].ID, true, nil
		},
	}.Settle(ctx)
}

// await waits until an image is as it is to be.
func (b *Bakery) await(ctx context.Context, id string, is func(Image) bool) (Image, error) {
	for until := time.Now().Add(b.lag()); ; {
		asked := time.Now()
		all, err := b.Images.Images(ctx)
		at := slices.IndexFunc(all, func(i Image) bool { return i.ID == id })
		switch {
		case err != nil && retry.IsRefused(b.Fail("bake", err)) && !errors.Is(b.Fail("bake", err), driver.ErrRateLimited):
			return Image{}, err
		case err != nil: // it is asked again
		case at < 0 && asked.After(until):
			return Image{}, fmt.Errorf("the image %s has vanished while it was made", id)
		case at < 0:
		case is(all[at]):
			return all[at], nil
		case all[at].State == ImageFailed:
			return Image{}, fmt.Errorf("the image %s was not made: %s", id, cmp.Or(all[at].Reason, "the cloud gives no reason"))
		}
		if !retry.Sleep(ctx, imagePause()) {
			return Image{}, errors.Join(fmt.Errorf("waiting for the image %s: %w", id, context.Cause(ctx)), err)
		}
	}
}

func (b *Bakery) finished(i Image) driver.BakedImage {
	i.Provider, i.Account = b.Provider, b.Capabilities().Account
	return i.BakedImage
}

// BakedImages is that of [driver.Baker].
func (b *Bakery) BakedImages(ctx context.Context) ([]driver.BakedImage, error) {
	all, err := b.Images.Images(ctx)
	if err != nil {
		return nil, b.Fail("list baked images", err)
	}
	images := []driver.BakedImage{}
	for _, i := range all {
		if i.Finished {
			images = append(images, b.finished(i))
		}
	}
	return images, nil
}

// DeleteBaked is that of [driver.Baker].
func (b *Bakery) DeleteBaked(ctx context.Context, ids ...string) error {
	all, err := b.Images.Images(ctx)
	if err != nil {
		return b.Fail("delete baked images", err)
	}
	var errs []error
	for _, i := range all {
		if i.Finished && slices.Contains(ids, i.ID) {
			errs = append(errs, b.delete(ctx, i))
		}
	}
	return errors.Join(errs...)
}

// delete deletes an image, unless it is gone.
func (b *Bakery) delete(ctx context.Context, i Image) error {
	err := b.Images.DeleteImage(ctx, i)
	if err == nil {
		return nil
	}
	if err = b.Fail("delete image", fmt.Errorf("%s: %w", i.ID, err)); errors.Is(err, driver.ErrNotFound) {
		return nil
	}
	return err
}

// Offering returns a function that makes an offer start from the newest image with the content of a
// key that was made of the base of such a machine, if there is one. If the cloud does not tell, the
// offers warn of it. base returns "" for an offer that cannot start from an image.
func (b *Bakery) Offering(ctx context.Context, key string, base func(driver.Offer) string) func(driver.Offer) driver.Offer {
	if key == "" {
		return func(o driver.Offer) driver.Offer { return o }
	}
	all, err := b.BakedImages(ctx)
	return func(o driver.Offer) driver.Offer {
		if err != nil {
			o.Warnings = append(slices.Clip(o.Warnings), fmt.Sprintf("whether there is a baked image for it is not known: %v", err))
			return o
		}
		of := base(o)
		image, ok := driver.Newest(all, func(i driver.BakedImage) bool {
			return i.Key == key && of != "" && i.Base == of && (i.Region == "" || i.Region == o.Region) && (i.Arch == "" || o.Arch == "" || i.Arch == o.Arch)
		})
		if ok {
			o.StartFrom(image)
		}
		return o
	}
}

// Unfinished returns the images of a pool, or of all pools, that are not finished, for List.
func (b *Bakery) Unfinished(ctx context.Context, poolID string) ([]driver.Resource, error) {
	all, err := b.unfinished(ctx, poolID)
	var resources []driver.Resource
	for _, i := range all {
		r := i.Tag.Resource(b.Provider, "image", i.ID)
		r.Name, r.Region, r.HourlyUSD = i.Name, i.Region, i.HourlyUSD
		r.Created = cmp.Or(r.Created, i.Created)
		resources = append(resources, r)
	}
	return resources, err
}

func (b *Bakery) unfinished(ctx context.Context, poolID string) ([]Image, error) {
	if poolID != "" && !driver.IsBake(poolID) {
		return nil, nil
	}
	all, err := b.Images.Images(ctx)
	if err != nil {
		return nil, b.Fail("list images", err)
	}
	return slices.DeleteFunc(all, func(i Image) bool {
		return i.Finished || i.Tag.Pool == "" || poolID != "" && i.Tag.Pool != poolID
	}), nil
}

// DeleteUnfinished deletes the images of a pool that are not finished, for Release.
func (b *Bakery) DeleteUnfinished(ctx context.Context, poolID string) error {
	all, err := b.unfinished(ctx, poolID)
	if err != nil {
		return err
	}
	var errs []error
	for _, i := range all {
		errs = append(errs, b.delete(ctx, i))
	}
	return errors.Join(errs...)
}
