package massedcompute

import (
	"cmp"
	"net"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// states are the known states of the API, in lower case. The usual one is "rented".
var states = map[string]driver.InstanceState{
	"pending": driver.InstancePending, "booting": driver.InstancePending, "provisioning": driver.InstancePending, "starting": driver.InstancePending,
	"rented": driver.InstanceRunning, "active": driver.InstanceRunning, "running": driver.InstanceRunning,
	"stopping": driver.InstanceStopped, "stopped": driver.InstanceStopped, "terminating": driver.InstanceStopped, "deleting": driver.InstanceStopped,
	"failed": driver.InstanceFailed, "error": driver.InstanceFailed,
	"terminated": driver.InstanceTerminated, "deleted": driver.InstanceTerminated,
}

// machine translates an instance.
func machine(in instance) cloud.Machine {
	m := cloud.Machine{Tag: pooltag.FromName(in.Name), Instance: driver.Instance{ID: in.UUID, PublicAddr: in.IP, StateReason: in.Status}}
	m.Doubt = m.Tag.Doubt("", in.Created.Time)
	if !in.Created.IsZero() {
		m.Tag.Created = in.Created.Time
	}
	p := product{Name: in.Product.Name, Description: in.Product.Description}
	p.Specs.VCPUs, p.Specs.MemoryGiB, p.Specs.StorageGB = in.Product.VCPUs, in.Product.MemoryGiB, in.Product.StorageGB
	m.Offer = offerOf(p, driver.Query{})
	m.Offer.Region, m.Offer.Country = in.Region.Name, in.Region.country()
	if usd, err := strconv.ParseFloat(cmp.Or(in.Product.Charged, in.Product.HourlyUSD), 64); err == nil && usd > 0 {
		m.Offer.HourlyUSD = driver.USD(usd)
	}
	m.State = states[strings.ToLower(in.Status)]
	if m.State == driver.InstanceRunning && (in.IP == "" || in.OSBooted != 1) {
		m.State, m.StateReason = driver.InstancePending, in.Status+", and its system has not booted yet"
	}
	if m.State == driver.InstanceRunning {
		m.SSH = driver.Endpoint{Addr: net.JoinHostPort(in.IP, "22"), User: login(in.Username)}
	}
	return m
}

// login returns the user to log in as. The API may say "Ubuntu", but no image has a user with a
// capital letter.
func login(username string) string { return cmp.Or(strings.ToLower(username), "ubuntu") }
