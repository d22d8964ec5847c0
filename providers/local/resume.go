package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/providers/driver"
)

// Resume serves the homes of a killed program: its servers ended with it, its detached
// processes go on. Resume continues after a home that fails, and refuses a home of another
// pool.
func (d *localDriver) Resume(ctx context.Context, pool driver.PoolInfo, ids ...string) error {
	if err := machine.CheckKey(pool.AuthorizedKey); err != nil {
		return fail("resume", driver.ErrInvalid, fmt.Errorf("the pool's authorized key: %w", err))
	}
	var errs []error
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			errs = append(errs, err)
			break
		}
		if err := d.resume(id, pool); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", id, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fail("resume", nil, err)
	}
	return nil
}

// resume serves one home, unless it is gone or already served here.
func (d *localDriver) resume(id string, pool driver.PoolInfo) error {
	if !validID(id) {
		return fmt.Errorf("%w: not a node's ID", driver.ErrInvalid)
	}
	home := d.homes.find(id)
	if home == "" {
		return nil // it is gone, even if another user has made a file in its place
	}
	m, err := readMark(home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it is gone by now, or never was a node, which Describe reports
	case err != nil:
		return err
	case m.Pool != pool.ID:
		return fmt.Errorf("%w: it is a node of pool %q, not of %q", driver.ErrInvalid, m.Pool, pool.ID)
	}
	m = m.renewed(pool)

	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[id]
	if n == nil || !n.machine.Admits(pool.AuthorizedKey) {
		key, err := keptHostKey(home)
		if err != nil {
			return unlessGone(home, fmt.Errorf("its host key: %w", err))
		}
		if n != nil {
			n.machine.Close()
		}
		if n, err = d.serve(id, home, m, key, pool.AuthorizedKey); err != nil {
			return unlessGone(home, err)
		}
	}
	noted := *n // nodes do not change once other calls hold them
	noted.mark = m
	d.nodes[id] = &noted
	return unlessGone(home, writeMark(home, m))
}

// unlessGone returns err, or nil if the node has ended meanwhile.
func unlessGone(home machine.Home, err error) error {
	if !home.Exists() {
		return nil
	}
	return err
}
