package ledger

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/gputrain/gputrain/internal/record"
)

var (
	// ErrUnknown is a pool that has no ledger.
	ErrUnknown = errors.New("no ledger of that pool")
	// ErrInUse is a pool whose program lives.
	ErrInUse = errors.New("pool is in use by another program")
	// ErrFenced is a pool that another program has taken, or ended. Nothing more
	// is written for this one.
	ErrFenced = errors.New("pool was taken over by another program")
	// ErrChanged is a ledger whose file somebody has edited, replaced or removed
	// while its program runs. What is running can be ended; nothing is put down.
	ErrChanged = errors.New("somebody has edited, replaced or removed the ledger's file while its program runs: put it back as it was")
	// ErrNewer is a ledger that a newer program has written.
	ErrNewer = errors.New("a newer version of this program has written the ledger: use that one")
	// ErrDamaged is a ledger that does not say all that was written to it.
	ErrDamaged = errors.New("the ledger is damaged")
	// ErrBusy is a pool whose files a program is changing, and does not finish.
	ErrBusy = errors.New("another program holds the lock of the pool's files: it is stopped, or the disk does not answer")
	// ErrFull is a disk that has no room for the ledger. It is syscall.ENOSPC.
	ErrFull = fmt.Errorf("the disk is full: %w", syscall.ENOSPC)
)

// told says what was being done, and makes a full disk an ErrFull.
func told(what, id string, err error) error {
	if err == nil {
		return nil
	}
	if record.IsFull(err) {
		return fmt.Errorf("%s the ledger of pool %s: %w; free space there, or choose another folder: %w", what, id, ErrFull, err)
	}
	return fmt.Errorf("%s the ledger of pool %s: %w", what, id, err)
}
