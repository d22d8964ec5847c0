package inventory

import (
	"errors"

	"github.com/gputrain/gputrain/internal/ledger"
)

// A book writes the ledger of a pool for the inventory. Most notes may fail without an effect on the caller: what they
// record exists, or is gone, in any case.
type book struct {
	ledger *ledger.Ledger // nil before the first resource is about to be made, and if another computer has it
	report Reporter
}

// note reports a note that could not be written.
func (b *book) note(err error) {
	if err == nil {
		return
	}
	b.lost(err)
	b.report.Trouble("ledger", LedgerError("note what was done", err))
}

// must returns the error of a note without which nothing may be made.
func (b *book) must(op string, err error) error {
	if err == nil {
		return nil
	}
	b.lost(err)
	return LedgerError(op, err)
}

// lost reports that another program has the pool, if that is the error.
func (b *book) lost(err error) {
	if errors.Is(err, ledger.ErrFenced) {
		b.report.Lost(LedgerError("pool", err))
	}
}

// fenced returns why this program must touch nothing of the pool any more, or nil.
func (b *book) fenced() error {
	if b.ledger == nil {
		return nil
	}
	if err := b.ledger.Fenced(); err != nil {
		return LedgerError("pool", err)
	}
	return nil
}

// close lets go of the ledger, which is removed if everything is gone.
func (b *book) close(allGone bool) error {
	if b.ledger == nil {
		return nil
	}
	if err := b.ledger.Close(allGone); err != nil {
		return LedgerError("close the ledger", err)
	}
	return nil
}
