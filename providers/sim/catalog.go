package sim

import (
	"cmp"
	"fmt"

	"github.com/gputrain/gputrain/providers/driver"
)

// A catalog holds the present offers of a cloud. The cloud's mu guards it.
type catalog struct{ offers []*offer }

// An offer is a driver's offer with its stock.
type offer struct {
	driver.Offer
	endless bool
}

func (c *catalog) set(offers []driver.Offer) {
	c.offers = nil
	for i, o := range offers {
		o.Provider = name
		o.ID = cmp.Or(o.ID, fmt.Sprintf("offer-%d", i+1))
		c.offers = append(c.offers, &offer{Offer: o, endless: o.Available == 0})
	}
}

// find returns the offer with an ID, or nil.
func (c *catalog) find(id string) *offer {
	for _, o := range c.offers {
		if o.ID == id {
			return o
		}
	}
	return nil
}

// list returns the offers in stock, and never nil.
func (c *catalog) list() []driver.Offer {
	offers := []driver.Offer{}
	for _, o := range c.offers {
		if o.endless || o.Available > 0 {
			offers = append(offers, o.Offer)
		}
	}
	return offers
}
