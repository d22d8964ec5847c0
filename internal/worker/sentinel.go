package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
)

// RegisterError makes an error value survive the way from the node: if a function's error Is err, so is the
// [RemoteError] at the client. The name must be the same on both sides; it is if one program registers it while its
// packages are initialized.
func RegisterError(name string, err error) { sentinels.add(name, CallerPosition(1), err) }

var sentinels = sentinelRegistry{byName: map[string]sentinel{
	"context.Canceled":         {err: context.Canceled},
	"context.DeadlineExceeded": {err: context.DeadlineExceeded},
	"io.EOF":                   {err: io.EOF},
	"io.ErrUnexpectedEOF":      {err: io.ErrUnexpectedEOF},
	"fs.ErrNotExist":           {err: fs.ErrNotExist},
	"fs.ErrExist":              {err: fs.ErrExist},
	"fs.ErrPermission":         {err: fs.ErrPermission},
	"os.ErrDeadlineExceeded":   {err: os.ErrDeadlineExceeded},
	"errors.ErrUnsupported":    {err: errors.ErrUnsupported},
	"worker.ErrUnknown":        {err: ErrUnknownFunction},
	"worker.ErrAbandoned":      {err: ErrAbandoned},
}}

type sentinelRegistry struct {
	mu     sync.RWMutex
	byName map[string]sentinel
	errs   []error
}

type sentinel struct {
	err      error
	position string
}

func (r *sentinelRegistry) add(name, position string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, taken := r.byName[name]
	switch {
	case err == nil:
		r.errs = append(r.errs, fmt.Errorf("the error %q at %s is nil", name, position))
	case !goodName.MatchString(name):
		r.errs = append(r.errs, fmt.Errorf("the error name %q at %s is not of 1 to 100 letters, digits and _ . / -", name, position))
	case taken && first.position == "":
		r.errs = append(r.errs, fmt.Errorf("the error name %q at %s is taken by gputrain; rename it", name, position))
	case taken:
		r.errs = append(r.errs, fmt.Errorf("two errors are called %q: at %s and at %s; rename one", name, first.position, position))
	default:
		r.byName[name] = sentinel{err, position}
	}
}

func (r *sentinelRegistry) err() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return errors.Join(r.errs...)
}

// matching returns the names of the registered values that err matches. It runs methods of the user's error types.
func (r *sentinelRegistry) matching(err error) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.byName)) {
		if errors.Is(err, r.byName[name].err) {
			names = append(names, name)
		}
	}
	return names
}

func (r *sentinelRegistry) values(names []string) []error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var errs []error
	for _, name := range names {
		if s, ok := r.byName[name]; ok {
			errs = append(errs, s.err)
		}
	}
	return errs
}
