package gputrain

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gputrain/gputrain/internal/ledger"
)

// A StateDir is a folder where programs keep the ledgers of their pools, and results
// that are too long for memory, as [WithStateDir] names one. The empty one is gputrain's folder in the user's state
// directory: $XDG_STATE_HOME/gputrain, or ~/.local/state/gputrain.
type StateDir string

// WithStateDir says where the pool's ledger is kept: the record of everything that is
// made for it, from which Attach and Reap know of it. Its folder must be on a disk that
// outlives the program, and only this user's: one that another user owns, can write to
// or can exchange for another is [ErrLedger]. The default is that of [StateDir].
func WithStateDir(dir string) Option { return func(o *options) { o.stateDir = StateDir(dir) } }

const hintStateDir = "WithStateDir, or a StateDir, names the folder to use"

// path returns the folder's absolute path.
func (d StateDir) path() (string, error) {
	path, err := string(d), error(nil)
	if path == "" {
		path, err = ledger.DefaultDir()
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", &Error{Op: "find the state directory", Kind: ErrLedger, Err: err, Hint: hintStateDir}
	}
	return path, nil
}

func (d StateDir) open() (*ledger.Dir, error) {
	path, err := d.path()
	if err != nil {
		return nil, err
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
