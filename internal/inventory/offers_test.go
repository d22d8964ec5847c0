package inventory

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

// The offers of a pool's machines, by which the others are rented in their network, are known from the ledger, too: with
// account and region, and without the machines that are gone or about to end.
func TestOffersOfRecalledMachines(t *testing.T) {
	account := Account{Provider: "cheapest", Caps: driver.Capabilities{Accounts: map[string]*driver.Capabilities{"acme.1": {}}}}
	s := newMachines()
	for _, row := range []ledger.Row{
		{Kind: machineKind, ID: "acme.1/i1", Name: "p-0", Member: "acme.1", Region: "here", State: ledger.Created},
		{Kind: machineKind, ID: "acme.1/i2", Name: "p-1", Member: "acme.1", Region: "there", State: ledger.Ending},
		{Kind: machineKind, ID: "acme.1/i3", Name: "p-2", Member: "acme.1", Region: "there", State: ledger.Gone, Gone: time.Now()},
		{Kind: machineKind, Name: "p-3", Member: "acme.1", Region: "there", State: ledger.Intended},
	} {
		s.recall(account, row)
	}
	if got := s.offers(); len(got) != 1 || got[0].Account != "acme.1" || got[0].Region != "here" {
		t.Errorf("%+v", got)
	}
}
