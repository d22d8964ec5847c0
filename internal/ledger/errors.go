package ledger

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/gputrain/gputrain/internal/record"
)

var (
	// ErrUnknown means that the pool has no ledger.
	ErrUnknown = errors.New("no ledger of that pool")
	// ErrInUse means that the pool's program lives.
	ErrInUse = errors.New("pool is in use by another program")
	// ErrFenced means that another program has taken the pool, or ended it. This program can write
	// nothing more.
	ErrFenced = errors.New("pool was taken over by another program")
	// ErrChanged means that the ledger's file was edited, replaced or removed by hand while its
	// program runs. What is running can be ended, but nothing is written.
	ErrChanged = errors.New("the ledger's file was edited, replaced or removed while its program runs: put it back as it was")
	// ErrNewer means that a newer program has written the ledger.
	ErrNewer = errors.New("a newer version of this program has written the ledger: use that one")
	// ErrDamaged means that the ledger lacks something that was written to it.
	ErrDamaged = errors.New("the ledger is damaged")
	// ErrBusy means that another program has begun to change the pool's files, and does not finish.
	ErrBusy = errors.New("another program holds the lock of the pool's files: it is stopped, or the disk does not answer")
	// ErrFull means that the disk has no room for the ledger. It wraps syscall.ENOSPC.
	ErrFull = fmt.Errorf("the disk is full: %w", syscall.ENOSPC)
)

// wrapError adds the operation to an error, and makes a full disk an ErrFull.
func wrapError(what, id string, err error) error {
	if err == nil {
		return nil
	}
	if record.IsFull(err) {
		return fmt.Errorf("%s the ledger of pool %s: %w; free space there, or choose another folder: %w", what, id, ErrFull, err)
	}
	return fmt.Errorf("%s the ledger of pool %s: %w", what, id, err)
}
