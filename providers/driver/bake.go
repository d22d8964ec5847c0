package driver

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A Baker is a [Driver] that can make an image of a prepared machine, from which machines of later
// pools start. gputrain.Bake uses it.
//
// An offer whose launch can start from an image for Query.Baked has the image in Offer.Baked: see
// [Offer.StartFrom]. Launch then starts from that image. If it no longer exists, Launch makes
// nothing and returns [ErrNotFound].
type Baker interface {
	// Bake makes an image of a machine of req.Pool, which runs and holds nothing of the pool that
	// does not belong into the image. It returns when machines can be launched from the image.
	//
	// As long as the image is not finished it belongs to the pool: it is recorded by
	// [PoolInfo.Record] before it is made, List reports it for the pool, as a Resource of kind
	// "image", and Release deletes it with everything that it stores. The last thing that Bake does
	// is to finish it. From then on it belongs to no pool: List and Release leave it alone. The
	// same holds for what an image consists of, such as snapshots.
	//
	// An unanswered call is settled as by Launch, never by another one. After an error there is
	// nothing, or an image that is not finished.
	Bake(ctx context.Context, req Bake) (BakedImage, error)
	// BakedImages returns the finished images of all programs that this account has, in all regions
	// that the driver rents in. An odd or failed answer is an error, never an empty list.
	BakedImages(ctx context.Context) ([]BakedImage, error)
	// DeleteBaked deletes images by their IDs, with everything that is stored for them. It is
	// idempotent: an image that is already gone is a success. Machines that were launched from an
	// image go on.
	DeleteBaked(ctx context.Context, ids ...string) error
}

// A Bake asks for an image of a machine.
type Bake struct {
	Pool PoolInfo
	// Instance is the machine, as it was launched for the pool.
	Instance Instance
	// Key identifies the content, as Query.Baked does: 64 hexadecimal digits.
	Key string
	// Name is unique: lower-case letters, digits and dashes, at most 60, starting with a letter.
	Name string
}

// A BakedImage is a finished image of a prepared machine.
type BakedImage struct {
	// Provider is the provider's name, and Account its driver's Capabilities.Account.
	Provider, Account string
	// ID is the provider's name for the image, unique in the account, and Name the name that it was
	// made with.
	ID, Name string
	// Key is the hash of the gputrain.Image that it has, and of the version of what prepares machines.
	Key string
	// Region is the only place where machines can start from it, in the provider's words. Empty
	// means that they can anywhere.
	Region string
	// Base is the image that its machine was launched from, in the provider's words.
	Base string
	// Arch is the processors' architecture by Go's name. Empty means unknown.
	Arch string
	// Created is the time of creation. Zero means unknown.
	Created time.Time
	// SizeGiB is the stored size. Zero means unknown.
	SizeGiB float64
	// HourlyUSD is the price of storing the image for an hour.
	HourlyUSD Price
}

// hoursOfMonth are the hours of a month in clouds' prices.
const hoursOfMonth = 730

// MonthlyUSD returns the price of storing the image for a month of 730 hours, and whether it is known.
func (b BakedImage) MonthlyUSD() (usd float64, known bool) {
	usd, known = b.HourlyUSD.USD()
	return usd * hoursOfMonth, known
}

// StartFrom makes a launch of the offer start from an image, which the offer's Warnings then tell with
// its price. Several drivers' offers may share their Warnings: StartFrom changes none in place.
func (o *Offer) StartFrom(b BakedImage) {
	o.Baked = b.ID
	text := "starts from the baked image " + b.ID
	switch usd, known := b.MonthlyUSD(); {
	case !known:
		text += ", whose storage has a price that is not known"
	case usd > 0:
		text += fmt.Sprintf(", whose storage costs %v a month, with or without machines", USD(usd))
	}
	o.Warnings = append(o.Warnings[:len(o.Warnings):len(o.Warnings)], text)
}

// bakePrefix begins the IDs of the pools of gputrain.Bake.
const bakePrefix = "bake-"

// IsBake reports whether a pool may have images that are not finished, by its ID: gputrain.Bake has
// made it. A driver need not look for images of other pools.
func IsBake(poolID string) bool { return strings.HasPrefix(poolID, bakePrefix) }

// Newest returns the newest of the images that suit, and whether there is one.
func Newest(images []BakedImage, suits func(BakedImage) bool) (newest BakedImage, ok bool) {
	for _, b := range images {
		if suits(b) && (!ok || b.Created.After(newest.Created) || b.Created.Equal(newest.Created) && b.ID > newest.ID) {
			newest, ok = b, true
		}
	}
	return newest, ok
}
