package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

// A program bakes an image where the provider makes images, as aws, gcp, hyperstack, vultr and container do. Elsewhere its
// nodes are prepared each time.
func ExampleBake() {
	ctx, provider := context.Background(), local.Config{}
	spec := gputrain.Spec{Image: gputrain.Image{Setup: []string{"echo ready >state"}}}
	image, err := gputrain.Bake(ctx, provider, spec)
	switch {
	case errors.Is(err, gputrain.ErrUnsupported):
		fmt.Println("no images there")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(image.ID)
	}

	pool, err := gputrain.Open(ctx, provider, spec) // from the image, if there is one
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	r, err := pool.Run(gputrain.Cmd("cat", "state"))
	if err != nil {
		log.Print(err)
	}
	fmt.Print(string(r.Stdout))
	// Output:
	// no images there
	// ready
}

// Images that are older than a month are deleted, which ends what they cost.
func ExampleDeleteBaked() {
	ctx, provider := context.Background(), local.Config{} // any provider; one that makes no images has none
	images, err := gputrain.BakedImages(ctx, provider)
	if err != nil {
		log.Fatal(err)
	}
	images = slices.DeleteFunc(images, func(b gputrain.BakedImage) bool { return time.Since(b.Created) < 30*24*time.Hour })
	for _, b := range images {
		usd, _ := b.MonthlyUSD()
		fmt.Printf("%s of %s: %.0f GiB, $%.2f a month\n", b.Name, b.Created.Format(time.DateOnly), b.SizeGiB, usd)
	}
	err = gputrain.DeleteBaked(ctx, provider, images...)
	fmt.Println(len(images), err)
	// Output: 0 <nil>
}
