package main

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/gputrain/gputrain/accelerators"
)

var planCommand = &command{
	name: "plan", args: "[PROVIDER...]", most: -1, summary: "show what could be rented now; rents nothing",
	help: `The cheapest comes first. Without providers it asks all whose credential is in the environment, and public price lists; aws and
gcp only if they are named. Without -gpu any machine fits, with GPUs or without.`,
	flags: func(o *options, flags *flag.FlagSet) {
		offerFlags(o, flags)
		flags.BoolVar(&o.offers.rejected, "rejected", false, "also show what does not fit, and why")
	},
	run: plan,
}

func plan(ctx context.Context, s *session) error {
	spec, err := s.offers.spec(accelerators.Accelerator{})
	if err != nil {
		return err
	}
	found, err := s.ask(ctx, spec)
	if err != nil {
		return err
	}
	views, rejected := []offerView{}, 0
	for _, c := range found {
		if c.Rejected != "" {
			rejected++
			if !s.offers.rejected {
				continue
			}
		}
		views = append(views, viewOfOffer(c))
	}
	sortOffers(views)
	more := 0
	if n := s.offers.n; n > 0 && len(views) > n {
		views, more = views[:n], len(views)-n
	}
	if s.json {
		return printJSON(s.out, views)
	}
	if len(views) == 0 {
		fmt.Fprintf(s.out, "nothing fits, of %s: -rejected shows why\n", count(rejected, "offer"))
		return nil
	}
	var t table
	t.add("PROVIDER", "TYPE", "REGION", "GPU", "VCPUS", "MEMORY", "PRICE", "HOW", "NOTE")
	for _, v := range views {
		note := v.Rejected
		if note == "" {
			note = strings.Join(v.Warnings, "; ")
		}
		t.add(v.Provider, v.Type, v.Region, gpuOf(v), number(v.VCPUs), gib(v.Memory), v.price(v.Hourly), v.how(), short(note))
	}
	if err := t.print(s.out); err != nil {
		return err
	}
	if more > 0 {
		fmt.Fprintf(s.err, "and %d more: -n 0 shows all\n", more)
	}
	return nil
}

// gpuOf returns "4 x A100 80 GiB".
func gpuOf(v offerView) string {
	if v.GPUs == 0 {
		return ""
	}
	text := nameOf(v.GPU, "GPU")
	if v.GPUs != 1 {
		text = number(v.GPUs) + " x " + text
	}
	if v.GPUMem > 0 {
		text += " " + gib(v.GPUMem)
	}
	return text
}

func number(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.4g", v)
}

func gib(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.4g GiB", v)
}
