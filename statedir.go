package gputrain

import (
	"errors"
	"fmt"

	"github.com/gputrain/gputrain/internal/ledger"
)

// A StateDir is a folder where programs keep the ledgers of their pools, as
// [WithStateDir] names one. The empty one is gputrain's folder in the user's state
// directory: $XDG_STATE_HOME/gputrain, or ~/.local/state/gputrain.
type StateDir string

// WithStateDir says where the pool's ledger is kept: the record of everything that is
// made for it, from which Attach and Reap know of it. Its folder must be on a disk that
// outlives the program, and only this user's. The default is that of [StateDir].
func WithStateDir(dir string) Option { return func(o *options) { o.stateDir = StateDir(dir) } }

const hintStateDir = "WithStateDir, or a StateDir, names the folder to use"

func (d StateDir) open() (*ledger.Dir, error) {
	path := string(d)
	if path == "" {
		var err error
		if path, err = ledger.DefaultDir(); err != nil {
			return nil, &Error{Op: "find the state directory", Kind: ErrLedger, Err: err, Hint: hintStateDir}
		}
	}
	dir, err := ledger.OpenDir(path)
	if err != nil {
		return nil, &Error{Op: "open the state directory", Kind: ErrLedger, Err: err, Hint: hintStateDir}
	}
	return dir, nil
}

// ledgerError says what was not possible with a ledger.
func ledgerError(op string, err error) error {
	e := &Error{Op: op, Kind: ErrLedger, Err: err}
	switch {
	case errors.Is(err, ledger.ErrInUse):
		e.Kind = ErrInUse
	case errors.Is(err, ledger.ErrFenced):
		e.Kind = ErrFenced
	case errors.Is(err, ledger.ErrFull):
		e.Hint = "free space there, or choose another folder with WithStateDir"
	}
	return e
}

var errNoLedger = fmt.Errorf("%w: no pool of that name or ID is known here", ErrNotFound)
