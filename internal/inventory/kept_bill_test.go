package inventory

import (
	"maps"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

// A machine costs the same by its row of the ledger: with its parts, traffic and earlier prices, to the moment of its end.
func TestBillByTheLedger(t *testing.T) {
	from := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	m := &machine{
		launched: from, traffic: traffic{5 << 30, 3 << 30}, unbilled: from.Add(5 * time.Hour), gone: from.Add(6 * time.Hour),
		charged: []charge{
			{tariff{driver.USD(2), []driver.PricePart{{Name: "machine", HourlyUSD: 2}}}, from.Add(time.Hour)},
			{tariff{driver.USD(3), []driver.PricePart{{Name: "machine", HourlyUSD: 2.5}, {Name: "disk", HourlyUSD: 0.5}}}, from.Add(3 * time.Hour)},
		},
		inst: driver.Instance{ID: "m1", Name: "p1-0", Offer: driver.Offer{
			HourlyUSD: driver.USD(4), Parts: []driver.PricePart{{Name: "machine", HourlyUSD: 3}, {Name: "disk", HourlyUSD: 1}}, IngressUSD: 0.01, EgressUSD: 0.1,
			BillingUnit: 10 * time.Minute,
		}},
	}
	row := rowOf(m.inst)
	row.Intended, row.Created, row.Gone, row.State, row.Bill = from, from.Add(time.Second), m.gone, ledger.Gone, m.bill()
	again := Account{}.machineOf(row)
	for _, at := range []time.Duration{30 * time.Minute, 2 * time.Hour, 10 * time.Hour} {
		usd, _ := m.usd(from.Add(at))
		parts, kept := map[string]float64{}, map[string]float64{}
		m.addParts(from.Add(at), parts)
		again.addParts(from.Add(at), kept)
		if got, known := again.usd(from.Add(at)); got != usd || !known || !maps.Equal(parts, kept) || len(kept) != 3 {
			t.Errorf("after %v: $%v of %v, by the ledger $%v of %v", at, usd, parts, got, kept)
		}
	}
	if cheap := (machine{inst: driver.Instance{Offer: driver.Offer{HourlyUSD: driver.USD(1)}}}); cheap.bill() != nil {
		t.Error("a price without parts has a bill")
	}
}

// Things that were made and are gone have cost what they cost.
func TestThingsThatAreGoneByTheLedger(t *testing.T) {
	from, usd := time.Now().Add(-4*time.Hour), 2.0
	snap := &ledger.Snapshot{Rows: []ledger.Row{
		{Name: "volume v1", Kind: "volume", ID: "v1", HourlyUSD: &usd, State: ledger.Gone, Intended: from, Created: from, Gone: from.Add(time.Hour)},
		{Name: "volume v2", Kind: "volume", ID: "v2", HourlyUSD: &usd, State: ledger.Created, Intended: from, Created: from},
	}}
	if s := Summarize(snap); s.CostUSD < 9.99 || s.CostUSD > 10.01 || s.Machines != 0 {
		t.Errorf("%+v", s)
	}
}
