package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/gputrain/gputrain"
	xssh "golang.org/x/crypto/ssh"
)

// Resume serves the homes of a program that was killed: servers lived in it, and
// ended with it; what detached itself there lives on. It goes on where one home
// fails, and refuses a home of another pool.
func (d *driver) Resume(ctx context.Context, pool gputrain.PoolInfo, ids ...string) error {
	authorized, _, _, _, err := xssh.ParseAuthorizedKey([]byte(pool.AuthorizedKey))
	if err != nil {
		return fail("resume", gputrain.ErrInvalid, fmt.Errorf("the pool's authorized key: %w", err))
	}
	var errs []error
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			errs = append(errs, err)
			break
		}
		if err := d.resume(id, pool, authorized); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", id, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fail("resume", nil, err)
	}
	return nil
}

// resume serves one home, unless it is gone or served here already.
func (d *driver) resume(id string, pool gputrain.PoolInfo, authorized xssh.PublicKey) error {
	if !validID(id) {
		return fmt.Errorf("%w: not the ID of a node", gputrain.ErrInvalid)
	}
	home := d.homes.find(id)
	if home == "" {
		return nil // it is gone, whatever another user has put in its place
	}
	m, err := readMark(home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it is gone by now, or never was a node: Describe says so
	case err != nil:
		return err
	case m.Pool != pool.ID:
		return fmt.Errorf("%w: it is a node of pool %q, not of %q", gputrain.ErrInvalid, m.Pool, pool.ID)
	}
	m = m.of(pool)

	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[id]
	if n == nil || !n.admits(authorized) {
		key, err := keptHostKey(home)
		if err != nil {
			return unlessGone(home, fmt.Errorf("its host key: %w", err))
		}
		if n != nil {
			n.server.Close()
		}
		if n, err = d.serve(id, home, m, key, authorized); err != nil {
			return unlessGone(home, err)
		}
	}
	noted := *n // a node that others hold does not change
	noted.mark = m
	d.nodes[id] = &noted
	return unlessGone(home, writeMark(home, m))
}

// unlessGone returns err, or nil where the node ended meanwhile.
func unlessGone(home string, err error) error {
	if !exists(home) {
		return nil
	}
	return err
}
