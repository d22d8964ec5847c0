package inventory

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// The names of price parts that an offer does not name itself.
const (
	machinePart = "machine"
	trafficPart = "traffic"
	sharedPart  = "shared" // volumes and the like that all machines share
)

// A tariff is the price of a machine for an hour, with its parts.
type tariff struct {
	hourly driver.Price
	parts  []driver.PricePart
}

func tariffOf(o driver.Offer) tariff { return tariff{o.HourlyUSD, o.Parts} }

// A charge is what a machine was charged until a time.
type charge struct {
	tariff
	until time.Time
}

// traffic counts the bytes that a machine has received and sent.
type traffic struct{ received, sent int64 }

// spans calls f for each tariff of the machine, with the hours for which it counts if the machine ends at a time: each
// begun unit of billing counts whole, until the machine is over and its provider gives back the rest.
func (m *machine) spans(end time.Time, f func(t tariff, hours float64)) {
	over, rule, start := m.over(), m.inst.Offer.Billing, m.launched
	if !over.IsZero() {
		end = over
	}
	if rule.AfterLaunch {
		if start = m.began; start.IsZero() && over.IsZero() {
			start = time.Now() // it may begin at any time
		}
		billed := !start.IsZero() && (!m.began.IsZero() || end.After(start))
		if start.IsZero() || start.After(end) {
			start = end
		}
		m.tariffs(m.launched, start, func(t tariff, hours float64) { f(t.only(rule.FromLaunch), hours) })
		if !billed {
			return
		}
	}
	d := max(end.Sub(start), 0)
	if unit := m.inst.Offer.BillingUnit; unit > 0 && (over.IsZero() || !rule.Refunds) {
		d = time.Duration(math.Ceil(float64(d)/float64(unit))) * unit
		if d == 0 {
			d = unit
		}
	}
	m.tariffs(start, start.Add(d), f)
}

// only returns the tariff of one part alone.
func (t tariff) only(part string) tariff {
	one := tariff{hourly: t.hourly}
	if _, known := t.hourly.USD(); !known {
		return one
	}
	usd := 0.0
	for _, p := range t.parts {
		if p.Name == part {
			usd, one.parts = p.HourlyUSD, []driver.PricePart{p}
		}
	}
	one.hourly = driver.USD(usd)
	return one
}

// tariffs calls f for each tariff of the machine between two times, with its hours.
func (m *machine) tariffs(from, end time.Time, f func(t tariff, hours float64)) {
	for _, c := range m.charged {
		until := c.until
		if until.After(end) {
			until = end
		}
		if until.After(from) {
			f(c.tariff, until.Sub(from).Hours())
			from = until
		}
	}
	f(tariffOf(m.inst.Offer), end.Sub(from).Hours())
}

// usd returns what the machine costs if it ends at a time, with its traffic so far. It is false if a price is not known.
func (m *machine) usd(end time.Time) (sum float64, known bool) {
	known = true
	m.spans(end, func(t tariff, hours float64) {
		perHour, ok := t.hourly.USD()
		sum += perHour * hours
		known = known && ok
	})
	return sum + m.trafficUSD(), known
}

// trafficUSD returns what the machine's traffic has cost so far.
func (m *machine) trafficUSD() float64 {
	const gib = 1 << 30
	return float64(m.traffic.received)/gib*m.inst.Offer.IngressUSD + float64(m.traffic.sent)/gib*m.inst.Offer.EgressUSD
}

// addParts adds what the machine costs if it ends at a time to the sums by part.
func (m *machine) addParts(end time.Time, sums map[string]float64) {
	m.spans(end, func(t tariff, hours float64) {
		parts := t.parts
		if perHour, known := t.hourly.USD(); known && len(parts) == 0 {
			parts = []driver.PricePart{{Name: machinePart, HourlyUSD: perHour}}
		}
		for _, p := range parts {
			sums[p.Name] += p.HourlyUSD * hours
		}
	})
	if usd := m.trafficUSD(); usd > 0 {
		sums[trafficPart] += usd
	}
}

// reprice notes the price that is charged from now on, and reports whether it is another one.
func (m *machine) reprice(o driver.Offer) bool {
	_, known := o.HourlyUSD.USD()
	if !known || o.HourlyUSD == m.inst.Offer.HourlyUSD && slices.Equal(o.Parts, m.inst.Offer.Parts) {
		return false
	}
	if _, known := m.inst.Offer.HourlyUSD.USD(); known {
		m.charged = append(m.charged, charge{tariffOf(m.inst.Offer), time.Now()})
	}
	m.inst.Offer.HourlyUSD, m.inst.Offer.Parts, m.rebilled = o.HourlyUSD, o.Parts, true
	return true
}

// Spot prices move. The provider is asked every priceEvery what it charges.
const priceEvery = 10 * time.Minute

// FollowPrices asks the provider, until ctx ends, what it charges for the spot machines. It calls changed if a
// price has moved.
func (s *Spending) FollowPrices(ctx context.Context, changed func()) {
	for retry.Sleep(ctx, priceEvery) {
		ids := s.machines.spot()
		if len(ids) == 0 {
			continue
		}
		found, _ := s.account.Driver.Describe(ctx, ids...) // what fails is asked for again in ten minutes
		moved := false
		for _, inst := range found {
			s.machines.update(inst.ID, func(m *machine) { moved = m.reprice(inst.Offer) || moved })
		}
		if moved {
			s.noted()
			changed()
		}
	}
}

// Seen notes of which machines the provider says that their billing has begun.
func (s *Spending) Seen(found []driver.Instance) {
	news := false
	for _, inst := range found {
		s.machines.update(inst.ID, func(m *machine) { news = m.begin(inst) || news })
	}
	if news {
		s.noted()
		s.report.Billed()
	}
}

// Moved notes what a machine has received from elsewhere, and sent there, in bytes since it was launched.
func (s *Spending) Moved(id string, received, sent int64) {
	s.machines.update(id, func(m *machine) {
		now := traffic{max(received, m.traffic.received), max(sent, m.traffic.sent)}
		m.rebilled = m.rebilled || now != m.traffic
		m.traffic = now
	})
}

// spot returns the IDs of the spot machines that are billed.
func (s *machines) spot() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, m := range s.byID {
		if m.inst.Offer.Spot && m.over().IsZero() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
