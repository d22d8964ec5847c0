package market

import (
	"context"
	"fmt"

	"github.com/gputrain/gputrain/providers/driver"
)

// warnings returns what a user should know about the machines of an offer before one is rented.
func (m *Market) warnings(ctx context.Context, w weighedOffer) (all []string) {
	o, caps := w.offer, m.caps.Of(w.offer)
	warn := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	rented := !caps.Adopts
	_, priced := o.HourlyUSD.USD()
	warn(rented && !caps.Free && !m.selfDestructs(o), "cannot end itself: after the death of this program, only Reap or Guard ends its billing")
	warn(caps.HostKeys == driver.HostKeyFirstContact, "its host key is trusted at the first contact")
	if m.wants.Nodes > 1 {
		warn(!caps.PrivateNetwork, "its nodes have no private network: Train refuses a gang that would meet at public addresses, unless AllowPublicNetwork is set")
		warn(caps.PrivateNetwork && caps.Ports == driver.PortsUnknown, "no firewall is known that keeps strangers from a gang's ports, which ask for no password")
		warn(caps.PrivateNetwork && caps.Ports == driver.PortsOfNetwork, "what shares a network with its nodes reaches a gang's ports, which ask for no password")
	}
	warn(m.wants.Tags && !caps.UserTags, "it gets none of Spec.Tags: the provider has no tags for them; without them the bill does not tell whose it is")
	warn(rented && !priced, "its price is unknown")
	warn(o.Spot && caps.PreemptionNotice == 0, "it can be taken back without notice")
	warn(rented && caps.ProvisionTimeout > driver.DefaultProvisionTimeout, "it may take up to %v to boot", caps.ProvisionTimeout)
	if b, known := m.balance(ctx, o); rented && known {
		warn(b.USD < m.wants.BudgetUSD, "the account has %v, and BudgetUSD is %v", driver.USD(b.USD), driver.USD(m.wants.BudgetUSD))
	}
	warn(w.failed != "", "a machine failed there lately (%s)", w.failed)
	warn(rented && w.boot > 0, "the last machine there took %v to boot", w.boot)
	return append(all, o.Warnings...)
}

// selfDestructs reports whether an offer's machine can end itself.
func (m *Market) selfDestructs(o driver.Offer) bool {
	inst := driver.Instance{ID: "i1", Offer: o}
	if o.Account != "" {
		inst.ID = o.Account + "/" + inst.ID
	}
	return SelfDestructs(m.driver, inst)
}

// SelfDestructs reports whether a machine of a driver can end itself.
func SelfDestructs(d driver.Driver, inst driver.Instance) bool {
	scripter, ok := d.(driver.Scripter)
	return ok && scripter.Scripts(inst).SelfDestruct != ""
}
