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
	// Accelerator is the accelerator of one machine, with its count. The zero value means none.
	Accelerator accelerators.Accelerator
	// Arch is the processors' architecture by Go's name: "amd64", "arm64". Empty means unknown.
	Arch string
	// VCPUs, MemoryGiB and DiskGiB are per machine. Zero means unknown.
	VCPUs     float64
	MemoryGiB float64
	DiskGiB   float64
	// HourlyUSD is the price of one machine for one hour, with a disk of Query.DiskGiB unless
	// its provider's documentation differs.
	HourlyUSD Price
	// IngressUSD and EgressUSD are the prices of a GiB that the machine receives from the
	// internet, and sends there. HourlyUSD does not include them. Zero means free or unknown.
	IngressUSD, EgressUSD float64
	// Spot is true if HourlyUSD is a spot price: the machine can be preempted.
	Spot bool
	// BillingUnit is the time that billing is rounded up to. Zero means seconds.
	BillingUnit time.Duration
	// Available is the number of machines that could be launched now. Zero means unknown.
	Available int
	// Tier ranks offers before their price: those of a lower tier are tried first, whatever
	// they cost.
	Tier int
	// Capabilities are those of this offer's machines, if they differ from the driver's. Nil
	// means the driver's. They are never modified.
	Capabilities *Capabilities
}
