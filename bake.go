package gputrain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/cutoff"
	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/internal/inventory"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/providers/driver"
)

// A BakedImage is an image of a prepared machine, which [Bake] has made, with its place, age, size and
// price. Its fields are in package driver.
type BakedImage = driver.BakedImage

// A bake may take bakeTimeout to make the image. A machine that can end itself does so bakeGrace later,
// if its program has died.
const bakeTimeout, bakeGrace = time.Hour, 10 * time.Minute

// Bake prepares one machine as [Open] would for the spec, has the provider make an image of it, and ends
// the machine. From then on Open starts nodes from that image, where the provider offers machines that
// can: their phases are done already. What cannot be in an image runs as before, and files of
// Image.Include that have changed are sent. Offer.Baked shows in [Plan] which offers have the image.
//
// The image is found by the hash of Spec.Image, so another Image needs another Bake; Open with a Spec
// without an image for it prepares its nodes as ever. If the best offer for the spec has an image
// already, Bake rents nothing and returns that one. Fields of the spec that say how many nodes there are
// have no effect, and an Image with Docker is [ErrInvalid]: it names an image already.
//
// The image outlives the pool and this program, and its storage costs money until [DeleteBaked] deletes
// it. It contains what the phases have written, and nothing else of the pool: no key, no log. A secret
// that a Setup command writes to the disk is in the image. [ErrUnsupported] means that the provider
// makes no images, or not of this machine. If Bake fails, or ctx ends, nothing is left, or the error
// wraps a [*LeakError]: it waits for that as [Open] does.
func Bake(ctx context.Context, provider Provider, spec Spec, opts ...Option) (BakedImage, error) {
	if provider == nil {
		return BakedImage{}, &Error{Op: "bake", Kind: ErrInvalid, Err: errors.New("the provider is nil")}
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if err := errors.Join(invalid.NoContext("bake", ctx), spec.Validate(), o.validate(), programReady("bake")); err != nil {
		return BakedImage{}, err
	}
	if spec.Image.Docker != "" {
		return BakedImage{}, &Error{Provider: provider.Name(), Op: "bake", Kind: ErrInvalid, Err: errors.New("Spec.Image.Docker names an image already, in whose container everything is prepared"), Hint: "build what nodes need into that image"}
	}
	spec.Nodes, spec.MaxNodes, spec.MinReady, spec.IdleTimeout = 1, 0, 0, 0
	key := bootstrap.BakeKey(bootstrap.Image(spec.Image))
	if key == "" {
		return BakedImage{}, &Error{Provider: provider.Name(), Op: "bake", Kind: ErrInvalid, Err: errors.New("Spec.Image asks for nothing that could be in an image")}
	}
	if img, found, err := findBaked(ctx, provider, spec); err != nil || found {
		return img, err
	}
	name := "bake"
	if o.name != "" {
		name += "-" + o.name[:min(len(o.name), 24)]
	}
	c, err := Open(ctx, provider, spec, append(slices.Clone(opts), func(o *options) { o.name, o.baking = name, true })...)
	if err != nil {
		return BakedImage{}, err
	}
	img, err := bakeNode(c.p, key)
	c.p.lives.Done() // the pool's end waits for what has become of the image
	return img, errors.Join(err, c.Close())
}

// findBaked returns the image from which the best offer starts, if there is one.
func findBaked(ctx context.Context, provider Provider, spec Spec) (img BakedImage, found bool, err error) {
	d, baker, err := openBaker(ctx, provider, "bake")
	if err != nil {
		return img, false, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	s, err := market.New(provider.Name(), d, spec.wants()).Candidates(ctx)
	if err != nil || len(s.Offers) == 0 || s.Offers[0].Baked == "" {
		return img, false, nil // Open finds out what is wrong
	}
	all, err := baker.BakedImages(ctx)
	if err != nil {
		return img, false, err
	}
	img, found = driver.Newest(all, func(b BakedImage) bool { return b.ID == s.Offers[0].Baked })
	return img, found, nil
}

// openBaker opens a provider that makes images.
func openBaker(ctx context.Context, provider Provider, op string) (driver.Driver, driver.Baker, error) {
	members, err := market.Flatten(provider)
	if err != nil {
		return nil, nil, err
	}
	if len(members) != 1 {
		return nil, nil, &Error{Provider: provider.Name(), Op: op, Kind: ErrUnsupported, Err: errors.New("it is made of other providers, and an image is one provider's"), Hint: "call it for each member"}
	}
	d, err := provider.Open(ctx)
	if err != nil {
		return nil, nil, cutoff.While(ctx, &Error{Provider: provider.Name(), Op: op}, "opening the provider", err)
	}
	baker, ok := d.(driver.Baker)
	if !ok {
		return nil, nil, errors.Join(&Error{Provider: provider.Name(), Op: op, Kind: ErrUnsupported, Err: errors.New("images of machines cannot be made there by this library")}, d.Close())
	}
	return d, baker, nil
}

// bakeNode makes an image of the machine of a pool's only node.
func bakeNode(p *pool, key string) (img BakedImage, err error) {
	ctx, stop := context.WithTimeoutCause(p.ctx, bakeTimeout, &Error{Provider: p.account.Provider, Op: "bake", Kind: ErrUnavailable, Err: fmt.Errorf("no image within %v", bakeTimeout)})
	defer stop()
	begun := time.Now()
	report := func(state string, err error) {
		p.events.emit(Event{Kind: EventPhase, Node: -1, Phase: "bake", State: state, Elapsed: time.Since(begun), Err: err})
	}
	p.mu.Lock()
	m := p.fleet.Members()[0]
	n := nodeOf(m)
	if m.State() != fleet.Ready {
		err = &Error{Provider: p.account.Provider, Op: "bake", Kind: ErrNodeLost, Err: cmp.Or(m.Err(), errors.New("the node was lost, and another one takes its place")), Hint: "call Bake again"}
	}
	p.mu.Unlock()
	report("started", nil)
	if err == nil {
		err = node.Seal(ctx, n.Node, key, bakeTimeout+bakeGrace)
	}
	if err == nil {
		name := "gputrain-baked-" + key[:16] + p.id[strings.LastIndexByte(p.id, '-'):]
		img, err = inventory.Bake(ctx, p.inventory, p.account.Driver.(driver.Baker), n.Node.Instance().ID, key, name)
	}
	if err != nil {
		err = p.withoutSecrets(p.interrupted(cutoff.By(ctx, err)))
		report("failed", err)
		return BakedImage{}, err
	}
	report("done", nil)
	return img, nil
}

// BakedImages returns the images that [Bake] has made at the providers, whichever program called it,
// the oldest first of each. Providers that make no images have none. Members of [Cheapest] and
// [FirstOf] count as providers. Beside an error are the images of those that could be asked.
func BakedImages(ctx context.Context, providers ...Provider) ([]BakedImage, error) {
	var all []BakedImage
	err := eachBaker(ctx, "list baked images", providers, func(b driver.Baker, _ string) error {
		found, err := b.BakedImages(ctx)
		slices.SortStableFunc(found, func(a, b BakedImage) int { return a.Created.Compare(b.Created) })
		all = append(all, found...)
		return err
	})
	return all, err
}

// DeleteBaked deletes images at their providers, with everything that is stored for them, and with that
// what they cost. Nothing else does: neither [Reap] nor the end of a pool touches a finished image. One
// that is already gone is a success. Nodes that have started from an image go on. The images of a month
// ago and more are deleted so:
//
//	images, err := gputrain.BakedImages(ctx, provider)
//	images = slices.DeleteFunc(images, func(b gputrain.BakedImage) bool { return time.Since(b.Created) < 30*24*time.Hour })
//	err = gputrain.DeleteBaked(ctx, provider, images...)
//
// The provider may be [Cheapest] or [FirstOf]. An image that is in none of its accounts is
// [ErrNotFound].
func DeleteBaked(ctx context.Context, provider Provider, images ...BakedImage) error {
	left := slices.Clone(images)
	err := eachBaker(ctx, "delete baked images", []Provider{provider}, func(b driver.Baker, account string) error {
		var ids []string
		left = slices.DeleteFunc(left, func(img BakedImage) bool {
			if account != img.Provider+"\n"+img.Account {
				return false
			}
			ids = append(ids, img.ID)
			return true
		})
		if ids == nil {
			return nil
		}
		return b.DeleteBaked(ctx, ids...)
	})
	errs := []error{err}
	for _, img := range left {
		errs = append(errs, &Error{Provider: img.Provider, Op: "delete baked images", Kind: ErrNotFound, Err: fmt.Errorf("%s is in the account %q, which is not the given provider's", img.ID, img.Account)})
	}
	return errors.Join(errs...)
}

// eachBaker calls do for each provider that makes images, with its name and account.
func eachBaker(ctx context.Context, op string, providers []Provider, do func(b driver.Baker, account string) error) error {
	if err := invalid.NoContext(op, ctx); err != nil {
		return err
	}
	all, errs := flatten(op, providers)
	for _, provider := range all {
		d, err := provider.Open(ctx)
		if err != nil {
			errs = append(errs, cutoff.While(ctx, &Error{Provider: provider.Name(), Op: op}, "opening the provider", err))
			continue
		}
		if b, ok := d.(driver.Baker); ok {
			err = do(b, provider.Name()+"\n"+d.Capabilities().Account)
		}
		errs = append(errs, err, d.Close())
	}
	return errors.Join(errs...)
}
