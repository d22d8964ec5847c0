package massedcompute

import (
	"cmp"
	"net"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// states are what the API is known to call them, in lower case. The normal one is "rented".
var states = map[string]gputrain.InstanceState{
	"pending": gputrain.InstancePending, "booting": gputrain.InstancePending, "provisioning": gputrain.InstancePending, "starting": gputrain.InstancePending,
	"rented": gputrain.InstanceRunning, "active": gputrain.InstanceRunning, "running": gputrain.InstanceRunning,
	"stopping": gputrain.InstanceStopped, "stopped": gputrain.InstanceStopped, "terminating": gputrain.InstanceStopped, "deleting": gputrain.InstanceStopped,
	"failed": gputrain.InstanceFailed, "error": gputrain.InstanceFailed,
	"terminated": gputrain.InstanceTerminated, "deleted": gputrain.InstanceTerminated,
}

// machine is an instance in gputrain's words.
func machine(in instance) cloud.Machine {
	m := cloud.Machine{Tag: cloud.FromName(in.Name), Instance: gputrain.Instance{ID: in.UUID, PublicAddr: in.IP, StateReason: in.Status}}
	m.Tag.Created = in.Created.Time
	p := product{Name: in.Product.Name, Description: in.Product.Description}
	p.Specs.VCPUs, p.Specs.MemoryGiB, p.Specs.StorageGB = in.Product.VCPUs, in.Product.MemoryGiB, in.Product.StorageGB
	m.Offer = offerOf(p, gputrain.Spec{})
	m.Offer.Region = in.Region.Name
	if usd, err := strconv.ParseFloat(cmp.Or(in.Product.Charged, in.Product.HourlyUSD), 64); err == nil && usd > 0 {
		m.Offer.HourlyUSD = gputrain.USD(usd)
	}
	m.State = states[strings.ToLower(in.Status)]
	if m.State == gputrain.InstanceRunning && (in.IP == "" || in.OSBooted != 1) {
		m.State, m.StateReason = gputrain.InstancePending, in.Status+", and its system has not booted yet"
	}
	if m.State == gputrain.InstanceRunning {
		m.SSH = gputrain.Endpoint{Addr: net.JoinHostPort(in.IP, "22"), User: login(in.Username)}
	}
	return m
}

// login is whom to log in as. The API may say "Ubuntu", and no image has a user with a
// capital letter.
func login(username string) string { return cmp.Or(strings.ToLower(username), "ubuntu") }
