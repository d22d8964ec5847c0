package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gputrain/gputrain/providers/driver"
)

// errElsewhere is the error of a launch that was not begun, because another one has decided meanwhile that the pool's
// machines are in another network.
var errElsewhere = errors.New("the machines of the pool are in another network")

func noMachines() []driver.Offer { return nil }

// Join has the market know the offers of the pool's machines, whose network the others must be in if the query is
// Joined. It is called before anything else.
func (m *Market) Join(rented func() []driver.Offer) { m.rented = rented }

// networkOf names the private network that an offer's machines are in: that of their account, or of their region there.
func (m *Market) networkOf(o driver.Offer) string {
	name := cmp.Or(o.Account, m.provider)
	if m.caps.Of(o).RegionalNetwork {
		name += " in " + o.Region
	}
	return name
}

// elsewhere returns why an offer's machines would not be in the network of the pool's machines, or "" if they would be, if
// there are none, or if no network is asked for.
func (m *Market) elsewhere(o driver.Offer) string {
	if !m.wants.Joined() {
		return ""
	}
	rented := m.rented()
	in := func(other driver.Offer) bool { return m.networkOf(other) == m.networkOf(o) }
	if len(rented) == 0 || slices.ContainsFunc(rented, in) {
		return ""
	}
	return fmt.Sprintf("is in the network of %s; the pool's nodes are in that of %s", m.networkOf(o), m.networkOf(rented[0]))
}

// isFounding reports whether the next machine decides on the network of the others.
func (m *Market) isFounding() bool { return m.wants.Joined() && len(m.rented()) == 0 }

// enter returns once a launch of an offer may begin, with what is to be called at its end, or errElsewhere. As long as
// the pool has no machine, one launch is under way at a time: two could be in different networks.
func (m *Market) enter(ctx context.Context, o driver.Offer) (leave func(), err error) {
	if !m.isFounding() {
		return m.enterRented(o)
	}
	select {
	case m.founding <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	leave = func() { <-m.founding }
	if !m.isFounding() {
		leave()
		return m.enterRented(o)
	}
	return leave, nil
}

// enterRented is enter if the pool has machines, or no network is asked for.
func (m *Market) enterRented(o driver.Offer) (leave func(), err error) {
	if m.elsewhere(o) != "" {
		return nil, errElsewhere
	}
	return func() {}, nil
}

// noRoomInNetwork returns the error of a purchase that could try no offer in the network of the pool's machines.
func (m *Market) noRoomInNetwork() error {
	return &driver.Error{
		Provider: m.provider, Op: "launch", Kind: driver.ErrNoCapacity, Err: errors.New("there is no offer in the private network of the pool's nodes; all others are in other networks"),
		Hint: "ask for fewer nodes, or for another accelerator or region; Spec.Network of NetworkAny takes nodes that cannot reach each other",
	}
}

// inOneNetwork qualifies a sentence about room if machines must be in one network.
func (m *Market) inOneNetwork() string {
	if m.wants.Joined() {
		return " in one private network"
	}
	return ""
}
