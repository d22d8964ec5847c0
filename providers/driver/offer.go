package driver

import (
	"time"

	"github.com/gputrain/gputrain/accelerators"
)

// An Offer can be rented now, at a price, in a place.
type Offer struct {
	// Provider is the provider's name.
	Provider string
	// Account is the account that offers it, by a key of Capabilities.Accounts. Empty means the
	// driver's only one.
	Account string
	// ID is the provider's own name for the offer, if it has one.
	ID string
	// InstanceType is the provider's name for the kind of machine.
	InstanceType string
	// Region is the place of its machines, in the provider's words.
	Region string
	// Country is the country of its machines by its ISO 3166-1 code: "US", "DE". Empty means unknown.
	Country string `json:",omitzero"`
	// Host is the provider's name for the physical machine, or for its owner's host, that a launch
	// of this offer gets. The same machine has the same name in later offers. Empty means that the
	// provider chooses one.
	Host string `json:",omitzero"`
	// Accelerator is the accelerator of one machine, with its count. The zero value means none.
	Accelerator accelerators.Accelerator
	// Arch is the processors' architecture by Go's name: "amd64", "arm64". Empty means unknown.
	Arch string
	// VCPUs, MemoryGiB and DiskGiB are per machine. Zero means unknown.
	VCPUs     float64
	MemoryGiB float64
	DiskGiB   float64
	// HourlyUSD is the price of one machine for one hour with everything that is billed by time: a
	// disk of the size that a launch for the query makes, a public address.
	HourlyUSD Price
	// Parts are what HourlyUSD is the sum of, if that is more than the machine. Each has a name of
	// its own. None means that HourlyUSD is one price.
	Parts []PricePart `json:",omitempty"`
	// IngressUSD and EgressUSD are the prices of a GiB that the machine receives from the
	// internet, and sends there. HourlyUSD does not include them. Zero means free or unknown.
	IngressUSD, EgressUSD float64
	// Spot is true if HourlyUSD is a spot price: the machine can be preempted.
	Spot bool
	// BillingUnit is the time that billing is rounded up to. Zero means seconds.
	BillingUnit time.Duration
	// Billing is how the machine's time is billed. The zero value bills it from its launch to its end.
	Billing Billing `json:",omitzero"`
	// Available is the number of machines that could be launched now. Zero means unknown.
	Available int
	// Tier ranks offers before their price: those of a lower tier are tried first, whatever
	// they cost.
	Tier int
	// Capabilities are those of this offer's machines, if they differ from the driver's. Nil
	// means the driver's. They are never modified.
	Capabilities *Capabilities
	// Rejected is the reason why the driver launches no machine of this offer for the query,
	// although it has the wanted accelerator: "its reliability is 0.91; Config.MinReliability is
	// 0.95", "sold out". gputrain.Plan shows it, and no pool tries the offer. Empty means that there
	// is none.
	Rejected string `json:",omitzero"`
	// Warnings are what a user should know before a machine of this offer is rented, and what no
	// other field tells: "the host's contract ends at 2026-12-01 12:00 UTC". gputrain.Plan shows
	// them.
	Warnings []string `json:",omitempty"`
	// Baked is the ID of the [BakedImage] that a launch of this offer starts from. Empty means that
	// it starts from the provider's usual image.
	Baked string `json:",omitzero"`
}

// A PricePart is a part of a price.
type PricePart struct {
	// Name is "machine", "disk", "address" or another word for what is paid.
	Name      string
	HourlyUSD float64
}
