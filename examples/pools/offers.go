package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

// offerOptions are the flags of plan and gpus.
type offerOptions struct {
	gpu       string
	spot      bool
	onDemand  bool
	max       float64
	countries string
	regions   string
	n         int
	rejected  bool
}

func offerFlags(o *options, flags *flag.FlagSet) {
	providerFlags(o, flags)
	flags.StringVar(&o.offers.gpu, "gpu", "", "`GPU` of each node: A100, A100-80GB:4")
	flags.BoolVar(&o.offers.spot, "spot", false, "spot only")
	flags.BoolVar(&o.offers.onDemand, "on-demand", false, "on demand only")
	flags.Float64Var(&o.offers.max, "max", 0, "at most so many `USD` per hour and node")
	flags.StringVar(&o.offers.countries, "countries", "", "only in these, by `CODES`: US,DE")
	flags.StringVar(&o.offers.regions, "regions", "", "only in these `REGIONS`, in the provider's words")
	flags.IntVar(&o.offers.n, "n", 20, "show at most `N`; 0: all")
}

// spec returns what is asked for.
func (o offerOptions) spec(gpu accelerators.Accelerator) (gputrain.Spec, error) {
	spec := gputrain.Spec{Accelerator: gpu, MaxHourlyUSD: o.max, Allocation: gputrain.CheapestAllocation}
	if o.gpu != "" {
		var err error
		if spec.Accelerator, err = accelerators.Parse(o.gpu); err != nil {
			return spec, wrongUsage("-gpu: %v", err)
		}
	}
	switch {
	case o.spot && o.onDemand:
		return spec, wrongUsage("-spot and -on-demand exclude each other")
	case o.spot:
		spec.Allocation = gputrain.Spot
	case o.onDemand:
		spec.Allocation = gputrain.OnDemand
	}
	spec.Countries, spec.Regions = words(o.countries), words(o.regions)
	if o.n < 0 {
		return spec, wrongUsage("-n is negative")
	}
	if err := spec.Validate(); err != nil {
		return spec, wrongUsage("%v", err)
	}
	return spec, nil
}

func words(text string) (all []string) {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			all = append(all, word)
		}
	}
	return all
}

// notRented are providers that rent nothing, or nothing by themselves.
var notRented = []string{"colab", "container", "local", "sim", "ssh"}

// toAsk returns the providers to ask: those that are named, or else every one that rents machines and that this program links.
func (s *session) toAsk() ([]gputrain.Provider, error) {
	if len(s.args) > 0 {
		return s.providersOf(s.args)
	}
	var names []string
	for _, name := range providerNames() {
		if !slices.Contains(notRented, name) {
			names = append(names, name)
		}
	}
	return s.providersOf(names)
}

// ask plans with each provider. Those that cannot be asked are noted on stderr; it is an error if none can be.
func (s *session) ask(ctx context.Context, spec gputrain.Spec) ([]gputrain.Candidate, error) {
	providers, err := s.toAsk()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	plans, errs := make([][]gputrain.Candidate, len(providers)), make([]error, len(providers))
	var asked sync.WaitGroup
	for i, p := range providers {
		asked.Go(func() { plans[i], errs[i] = gputrain.Plan(ctx, p, spec) })
	}
	asked.Wait()
	var all []gputrain.Candidate
	failed := 0
	for i, err := range errs {
		all = append(all, plans[i]...)
		if err == nil {
			continue
		}
		failed++
		if len(s.args) == 0 && errors.Is(err, gputrain.ErrAuth) {
			err = errors.New("it has no credential here, and no public price list")
		}
		fmt.Fprintf(s.err, "%s was not asked: %s\n", providers[i].Name(), short(err.Error()))
	}
	if failed == len(providers) {
		return nil, errors.Join(append([]error{errors.New("no provider could be asked: name one whose credential is in the environment")}, named(s, errs)...)...)
	}
	return all, nil
}

// named returns the errors if the user has named the providers.
func named(s *session, errs []error) []error {
	if len(s.args) == 0 {
		return nil
	}
	return errs
}

// An offerView is an offer as JSON.
type offerView struct {
	Provider string   `json:"provider"`
	Account  string   `json:"account,omitzero"`
	Type     string   `json:"instanceType"`
	Region   string   `json:"region,omitzero"`
	Country  string   `json:"country,omitzero"`
	GPU      string   `json:"gpu,omitzero"`
	GPUs     float64  `json:"gpus,omitzero"`
	GPUMem   float64  `json:"gpuMemoryGiB,omitzero"`
	VCPUs    float64  `json:"vcpus,omitzero"`
	Memory   float64  `json:"memoryGiB,omitzero"`
	Spot     bool     `json:"spot"`
	Hourly   *float64 `json:"hourlyUSD"`
	PerGPU   *float64 `json:"hourlyUSDPerGPU,omitempty"`
	Free     int      `json:"available,omitzero"`
	Rejected string   `json:"rejected,omitzero"`
	Warnings []string `json:"warnings,omitempty"`
}

func viewOfOffer(c gputrain.Candidate) offerView {
	o := c.Offer
	v := offerView{
		Provider: clean(o.Provider), Account: clean(o.Account), Type: clean(o.InstanceType), Region: clean(o.Region), Country: clean(o.Country),
		GPU: clean(o.Accelerator.Name), GPUMem: o.Accelerator.MemoryGiB, VCPUs: o.VCPUs, Memory: o.MemoryGiB, Spot: o.Spot, Hourly: amount(o.HourlyUSD),
		Free: o.Available, Rejected: clean(c.Rejected),
	}
	if !o.Accelerator.IsZero() {
		v.GPUs = cmp.Or(o.Accelerator.Count, 1)
		if v.Hourly != nil {
			each := *v.Hourly / v.GPUs
			v.PerGPU = &each
		}
	}
	for _, w := range c.Warnings {
		v.Warnings = append(v.Warnings, clean(w))
	}
	return v
}

// price returns a price for the table.
func (v offerView) price(usd *float64) string {
	if usd == nil {
		return "unknown"
	}
	return dollars(*usd) + "/h"
}

func (v offerView) how() string {
	if v.Spot {
		return "spot"
	}
	return "on demand"
}
