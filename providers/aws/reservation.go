package aws

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/providers/driver"
)

// A reservation is where nodes may run: in one capacity reservation, in any open one, or in none.
type reservation struct {
	id         string // the one that all nodes run in; empty if there is none
	block      bool   // it is a capacity block
	preference string // "open", "none", or EC2's own
}

// specification returns the reservation in the form that a launch takes, or nil.
func (r reservation) specification() *types.CapacityReservationSpecification {
	switch {
	case r.id != "":
		return &types.CapacityReservationSpecification{CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: &r.id}}
	case r.preference != "":
		return &types.CapacityReservationSpecification{CapacityReservationPreference: types.CapacityReservationPreference(r.preference)}
	}
	return nil
}

// unfit returns why a type cannot run there, or "".
func (r reservation) unfit(k kind) string {
	switch {
	case r.block && !k.block:
		return "is not sold by capacity block; Config.CapacityBlock is true"
	case r.block, k.spot, k.onDemand:
		return ""
	}
	return "is sold by capacity block only; set Config.CapacityReservationID and Config.CapacityBlock"
}

// price returns the price of a machine, whose price on demand is known or 0. A capacity block was
// paid in advance. A reservation is billed as its machines are, whether they run or not.
func (r reservation) price(onDemand float64) driver.Price {
	if r.block {
		return driver.USD(0)
	}
	return knownUSD(onDemand)
}

// warnings returns what the price of a machine there does not tell.
func (r reservation) warnings() []string {
	switch {
	case r.block:
		return []string{fmt.Sprintf("it runs in the capacity block %s, which was paid in advance; EC2 ends its machines before the block ends", r.id)}
	case r.id != "":
		return []string{fmt.Sprintf("it runs in the capacity reservation %s, which is billed at the price of its machines until it is canceled, whether they run or not", r.id)}
	}
	return nil
}
