package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gputrain/gputrain/accelerators"
)

var gpusCommand = &command{
	name: "gpus", args: "[PROVIDER...]", most: -1, summary: "show which GPU costs what now; rents nothing",
	help: `For each GPU, each provider's cheapest offer per GPU, on demand and spot. Without
providers it asks all whose credential is in the environment, and public price
lists; aws, gcp and kubernetes only if they are named.`,
	flags: offerFlags, run: gpus,
}

func gpus(ctx context.Context, s *session) error {
	spec, err := s.offers.spec(accelerators.Any(accelerators.CountBetween(1, accelerators.Unlimited)))
	if err != nil {
		return err
	}
	if s.offers.gpu != "" {
		spec.Accelerator = spec.Accelerator.OrMore()
	}
	found, err := s.ask(ctx, spec)
	if err != nil {
		return err
	}
	type kind struct {
		gpu      string
		memory   float64
		provider string
		spot     bool
	}
	best := map[kind]offerView{}
	for _, c := range found {
		if c.Rejected != "" {
			continue
		}
		v := viewOfOffer(c)
		if v.GPUs == 0 {
			continue
		}
		k := kind{v.GPU, v.GPUMem, v.Provider, v.Spot}
		if old, ok := best[k]; !ok || orLast(v.PerGPU) < orLast(old.PerGPU) {
			best[k] = v
		}
	}
	views := []offerView{}
	for _, v := range best {
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b offerView) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.GPUMem, b.GPUMem), compareOffers(a, b))
	})
	more := 0
	if n := s.offers.n; n > 0 && len(views) > n {
		views, more = views[:n], len(views)-n
	}
	if s.json {
		return printJSON(s.out, views)
	}
	if len(views) == 0 {
		fmt.Fprintln(s.out, "no GPU is offered that fits")
		return nil
	}
	var t table
	t.add("GPU", "MEMORY", "PER GPU", "HOW", "PROVIDER", "TYPE", "GPUS", "PRICE", "REGION")
	for _, v := range views {
		t.add(nameOf(v.GPU, "GPU"), gib(v.GPUMem), v.price(v.PerGPU), v.how(), v.Provider, v.Type, number(v.GPUs), v.price(v.Hourly), v.Region)
	}
	if err := t.print(s.out); err != nil {
		return err
	}
	if more > 0 {
		fmt.Fprintf(s.err, "and %d more: -n 0 shows all\n", more)
	}
	return nil
}

// orLast returns a price that is higher than any other if it is not known.
func orLast(usd *float64) float64 {
	if usd == nil {
		return math.Inf(1)
	}
	return *usd
}

// compareOffers orders offers by the price of a GPU, then of a node.
func compareOffers(a, b offerView) int {
	return cmp.Or(cmp.Compare(orLast(a.PerGPU), orLast(b.PerGPU)), cmp.Compare(orLast(a.Hourly), orLast(b.Hourly)),
		cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Region, b.Region))
}

// sortOffers puts what fits first, and then what costs least per node. Offers of one price stay in their provider's order.
func sortOffers(views []offerView) {
	slices.SortStableFunc(views, func(a, b offerView) int {
		return cmp.Or(cmp.Compare(min(len(a.Rejected), 1), min(len(b.Rejected), 1)), cmp.Compare(orLast(a.Hourly), orLast(b.Hourly)))
	})
}
