package inventory

import (
	"context"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

// bill returns what the ledger keeps of the machine's cost beside its present price, or nil if there is nothing else.
func (m *machine) bill() *ledger.Bill {
	o := m.inst.Offer
	if len(o.Parts)+len(m.charged) == 0 && o.IngressUSD == 0 && o.EgressUSD == 0 && m.traffic == (traffic{}) && m.unbilled.IsZero() && o.Billing == (driver.Billing{}) {
		return nil
	}
	b := &ledger.Bill{
		Parts: keptParts(o.Parts), IngressUSD: o.IngressUSD, EgressUSD: o.EgressUSD, Received: m.traffic.received, Sent: m.traffic.sent, Unbilled: m.unbilled,
		AfterLaunch: o.Billing.AfterLaunch, FromLaunch: o.Billing.FromLaunch, Began: m.began, Refunds: o.Billing.Refunds,
	}
	for _, c := range m.charged {
		kept := ledger.Charge{Parts: keptParts(c.parts), Until: c.until}
		if usd, known := c.hourly.USD(); known {
			kept.HourlyUSD = &usd
		}
		b.Charged = append(b.Charged, kept)
	}
	return b
}

// setBill sets what bill has returned.
func (m *machine) setBill(b *ledger.Bill) {
	if b == nil {
		return
	}
	o := &m.inst.Offer
	o.Parts, o.IngressUSD, o.EgressUSD = partsOf(b.Parts), b.IngressUSD, b.EgressUSD
	o.Billing = driver.Billing{AfterLaunch: b.AfterLaunch, FromLaunch: b.FromLaunch, Refunds: b.Refunds}
	m.traffic, m.unbilled, m.began = traffic{b.Received, b.Sent}, b.Unbilled, b.Began
	for _, kept := range b.Charged {
		c := charge{tariff{parts: partsOf(kept.Parts)}, kept.Until}
		if kept.HourlyUSD != nil {
			c.hourly = driver.USD(*kept.HourlyUSD)
		}
		m.charged = append(m.charged, c)
	}
}

func keptParts(parts []driver.PricePart) (kept []ledger.Part) {
	for _, p := range parts {
		kept = append(kept, ledger.Part(p))
	}
	return kept
}

func partsOf(kept []ledger.Part) (parts []driver.PricePart) {
	for _, p := range kept {
		parts = append(parts, driver.PricePart(p))
	}
	return parts
}

// bills returns the rows of those machines whose bills have changed since it was called last: all of them, or those with
// these IDs.
func (s *machines) bills(ids ...string) (rows []ledger.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := func(m *machine) {
		if m == nil || !m.rebilled || m.inst.Name == "" {
			return
		}
		m.rebilled = false
		row := ledger.Row{Name: m.inst.Name, Billing: ledger.Billing{Bill: m.bill()}}
		if usd, known := m.inst.Offer.HourlyUSD.USD(); known {
			row.HourlyUSD = &usd
		}
		rows = append(rows, row)
	}
	for _, id := range ids {
		changed(s.byID[id])
	}
	if ids == nil {
		for _, m := range s.byID {
			changed(m)
		}
	}
	return rows
}

// noteBills records the bills that have changed, for a program that attaches, and for lists of pools.
func noteBills(ctx context.Context, inv *Inventory) {
	if rows := inv.machines.bills(); len(rows) > 0 && inv.book.ledger != nil && ctx.Err() == nil {
		inv.book.note(inv.book.ledger.Billed(rows...))
	}
}
