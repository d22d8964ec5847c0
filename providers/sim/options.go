package sim

import (
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

// Options say what a cloud is like. The zero value is a good one: it has some
// offers, boots at once, and nothing goes wrong.
type Options struct {
	// Seed decides everything that is random. The same seed and the same order of
	// calls bring the same faults.
	Seed uint64
	// Name is the cloud's own, and part of Capabilities.Account. Empty means one
	// that no other cloud has.
	Name string
	// Offers are what can be rented. Offer.Available goes down with every launch;
	// zero is without end. Nil means a few of every kind.
	Offers []gputrain.Offer
	// Quota is how many machines an account may have. Zero is without end.
	Quota int
	// Token, where it is set, is what Config.Token must be.
	Token gputrain.Secret
	// BootTime is how long a machine takes to come up, and BootJitter how much
	// longer at most.
	BootTime, BootJitter time.Duration
	// Latency is how long every call takes.
	Latency time.Duration
	// ListLag is how long what was made is missing from lists.
	ListLag time.Duration
	// PreemptionNotice is what Capabilities.PreemptionNotice says.
	PreemptionNotice time.Duration
	// ProvisionTimeout is what Capabilities.ProvisionTimeout says.
	ProvisionTimeout time.Duration
	// NoTokens has the cloud ignore LaunchRequest.Token: the driver then settles an
	// answer that never came by listing.
	NoTokens bool
	// Faults are what goes wrong: see [Random] and [Cloud.Inject].
	Faults []Fault
	// Exec, where it is set, runs the tasks of all machines in place of real
	// processes. Neither files nor sockets are used then, so that a whole pool can
	// live in a testing/synctest bubble. See [Command].
	Exec Exec
	// Dir is an existing directory in which each machine with real processes gets
	// its home. Empty means the system's directory for temporary files.
	Dir string
}

// defaultOffers are rented where Options.Offers is nil.
func defaultOffers() []gputrain.Offer {
	var offers []gputrain.Offer
	for _, region := range []string{"sim-east", "sim-west"} {
		for _, o := range []gputrain.Offer{
			{InstanceType: "small", VCPUs: 4, MemoryGiB: 16, DiskGiB: 100, HourlyUSD: gputrain.USD(0.20)},
			{InstanceType: "a100", VCPUs: 16, MemoryGiB: 128, DiskGiB: 500, HourlyUSD: gputrain.USD(1.80), Accelerator: accelerators.A100(accelerators.Count(1), accelerators.Memory(80))},
			{InstanceType: "h100x8", VCPUs: 128, MemoryGiB: 1024, DiskGiB: 2000, HourlyUSD: gputrain.USD(24), Accelerator: accelerators.H100(accelerators.Count(8))},
		} {
			o.Region = region
			spot := o
			spot.Spot = true
			usd, _ := o.HourlyUSD.USD()
			spot.HourlyUSD = gputrain.USD(usd * 0.3)
			offers = append(offers, o, spot)
		}
	}
	return offers
}
