package inventory

import (
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
)

// A Summary summarizes the ledger of a pool.
type Summary struct {
	// Machines counts the machines that are not known to be gone, including those that may never have been made.
	Machines int
	// CostUSD is what all have cost so far, as far as prices are known, and Unknown how many
	// have a price that is not known.
	CostUSD float64
	Unknown int
}

// Summarize summarizes a ledger. It asks no provider.
func Summarize(snap *ledger.Snapshot) (s Summary) {
	account, now := Account{Provider: snap.Provider}, time.Now()
	things := shared{account: account, pool: snap.Pool}
	for _, row := range snap.Rows {
		if row.Kind != machineKind {
			things.recall(row)
			continue
		}
		if row.State != ledger.Gone {
			s.Machines++
		}
		if row.ID == "" {
			continue // nothing is known to have been made
		}
		usd, known := account.machineOf(row).usd(now)
		s.CostUSD += usd
		if !known {
			s.Unknown++
		}
	}
	usd, _ := things.cost(now)
	s.CostUSD += usd
	return s
}
