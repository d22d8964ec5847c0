package market_test

import (
	"context"
	"iter"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

// A shop is a driver that has only offers.
type shop struct {
	driver.Driver
	caps   driver.Capabilities
	offers []driver.Offer
	err    error // after the offers
}

func (s *shop) Capabilities() driver.Capabilities { return s.caps }

func (s *shop) Offers(context.Context, driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		for _, o := range s.offers {
			if !yield(o, nil) {
				return
			}
		}
		if s.err != nil {
			yield(driver.Offer{}, s.err)
		}
	}
}

// opened returns the market of a shop.
func opened(s *shop, wants market.Wants) *market.Market { return market.New("acme", s, wants) }

// at returns an offer of a small machine.
func at(region string, usd float64) driver.Offer {
	return driver.Offer{
		Provider: "acme", ID: region, InstanceType: "small", Region: region, VCPUs: 2, MemoryGiB: 8, DiskGiB: 50, HourlyUSD: driver.USD(usd),
	}
}

func regions(offers []driver.Offer) (all []string) {
	for _, o := range offers {
		all = append(all, o.Region)
	}
	return all
}
