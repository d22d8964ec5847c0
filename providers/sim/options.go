package sim

import (
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// Options configure a cloud. The zero value works: some offers, no boot time, no faults.
type Options struct {
	// Seed determines everything random. The same seed and the same order of calls give the
	// same faults.
	Seed uint64
	// Name is the cloud's own, and part of Capabilities.Account. Empty means a unique name.
	Name string
	// Offers can be rented. Offer.Available decreases with every launch; zero means unlimited.
	// Nil means a few of every kind.
	Offers []driver.Offer
	// Quota bounds the machines of an account. Zero means unlimited, and -1 none.
	Quota int
	// TellsAccount makes drivers know the quota, and an account's money: see [Cloud.SetAccount].
	TellsAccount bool
	// Token, if set, is the required Config.Token.
	Token driver.Secret
	// BootTime is the time in which a machine comes up. BootJitter is the largest random
	// addition to it.
	BootTime, BootJitter time.Duration
	// Latency is the duration of every call.
	Latency time.Duration
	// ListLag is the time for which lists lack new things.
	ListLag time.Duration
	// PreemptionNotice is the value of Capabilities.PreemptionNotice.
	PreemptionNotice time.Duration
	// ProvisionTimeout is the value of Capabilities.ProvisionTimeout.
	ProvisionTimeout time.Duration
	// NoTokens makes the cloud ignore driver.Launch.Token: the driver then settles a lost
	// answer by listing.
	NoTokens bool
	// NoSelfDestruct makes machines that cannot end themselves: when their lease or TTL is over, their
	// tasks end, and they are still billed.
	NoSelfDestruct bool
	// Faults are rules for faults: see [Random] and [Cloud.Inject].
	Faults []Fault
	// Exec, if set, runs the tasks of all machines instead of real processes. It uses neither
	// files nor sockets, so that a whole pool can live in a testing/synctest bubble. See
	// [Command].
	Exec Exec
	// Load returns how busy a device of a machine is, in percent, by the machine's ID and the device's index. A negative load is
	// that of a device that has vanished. It is called with Exec only. Nil means that devices work while a task runs.
	Load func(id string, device int) float64
	// Clock is that of the processors of a machine's device, in MHz. Nil means 1410.
	Clock func(id string, device int) float64
	// Dir is an existing directory for the homes of machines with real processes. Empty means
	// the system's directory for temporary files.
	Dir string
}

// defaultOffers are the offers of a cloud without Options.Offers.
func defaultOffers() []driver.Offer {
	var offers []driver.Offer
	for _, region := range []string{"sim-east", "sim-west"} {
		for _, o := range []driver.Offer{
			{InstanceType: "small", VCPUs: 4, MemoryGiB: 16, DiskGiB: 100, HourlyUSD: driver.USD(0.20)},
			{InstanceType: "a100", VCPUs: 16, MemoryGiB: 128, DiskGiB: 500, HourlyUSD: driver.USD(1.80), Accelerator: accelerators.A100(accelerators.Count(1), accelerators.Memory(80))},
			{InstanceType: "h100x8", VCPUs: 128, MemoryGiB: 1024, DiskGiB: 2000, HourlyUSD: driver.USD(24), Accelerator: accelerators.H100(accelerators.Count(8))},
		} {
			o.Region, o.Country = region, map[string]string{"sim-east": "US", "sim-west": "NL"}[region]
			spot := o
			spot.Spot = true
			usd, _ := o.HourlyUSD.USD()
			spot.HourlyUSD = driver.USD(usd * 0.3)
			offers = append(offers, o, spot)
		}
	}
	return offers
}
