package gputrain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/gputrain/gputrain/internal/transfer"
)

// An upload is a file or folder that every node has, also one that joins later.
type upload struct{ local, remote string }

// Upload copies a file or folder of this machine to every node, to the path
// remote: relative to the node's working directory, or absolute. A folder's
// tree is merged into what is there. What is there already with the same size,
// time (to the second) and permission bits is not sent again, except small
// single files. Nodes that join later get it before their first task, as it is
// then: all of them, where none is ready now. A file that is written to while it is sent is an error.
func (c *Compute) Upload(local, remote string) error {
	if err := c.check(); err != nil {
		return err
	}
	if _, err := os.Stat(local); err != nil {
		return &Error{Op: "upload", Kind: ErrInvalid, Err: err}
	}
	if remote == "" || path.Clean(remote) == "/" {
		return &Error{Op: "upload", Kind: ErrInvalid, Err: fmt.Errorf("%q is no place for a file", remote)}
	}
	local, err := filepath.Abs(local)
	if err != nil {
		return err
	}
	up := upload{local, remote}
	c.p.mu.Lock()
	c.p.uploads = append(c.p.uploads, up)
	nodes := c.p.readyLocked()
	later := c.p.spec.MaxNodes > 0 // or of those that are on their way up
	for _, n := range c.p.nodes {
		later = later || !n.state.over()
	}
	c.p.mu.Unlock()
	c.p.journal.note(keptUpload, keptFiles{up.local, up.remote})
	if len(nodes) == 0 && later {
		return nil
	}
	return c.each(nodes, func(ctx context.Context, n *poolNode) error { return n.upload(ctx, up) })
}

// Download copies the file or folder remote of every node into the folder
// local of this machine: that of node rank 0 arrives as local/0/<name>, and so on.
// A node that does not have it is an error that names the node; what the others
// have is there all the same.
func (c *Compute) Download(remote, local string) error {
	if err := c.check(); err != nil {
		return err
	}
	if remote == "" {
		return &Error{Op: "download", Kind: ErrInvalid, Err: errors.New("no path was given")}
	}
	c.p.mu.Lock()
	nodes := c.p.readyLocked()
	c.p.mu.Unlock()
	return c.each(nodes, func(ctx context.Context, n *poolNode) error {
		dir := filepath.Join(local, strconv.Itoa(n.rank()))
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		if err := n.remote.Download(ctx, remote, dir); err != nil {
			return fmt.Errorf("node %d: download %s: %w", n.rank(), remote, err)
		}
		return nil
	})
}

func (n *poolNode) upload(ctx context.Context, up upload) error {
	if err := n.remote.Upload(ctx, up.local, up.remote, transfer.Options{}); err != nil {
		return fmt.Errorf("node %d: upload %s: %w", n.rank(), up.remote, err)
	}
	return nil
}

// each does something on all nodes at once, until c's context or the node ends.
func (c *Compute) each(nodes []*poolNode, do func(context.Context, *poolNode) error) error {
	if len(nodes) == 0 {
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		return c.p.noNodesLocked()
	}
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			ctx, cancel := context.WithCancelCause(c.ctx)
			defer cancel(nil)
			defer context.AfterFunc(n.ctx, func() { cancel(context.Cause(n.ctx)) })()
			if errs[i] = do(ctx, n); errs[i] != nil && c.ctx.Err() == nil && n.isOver() {
				errs[i] = fmt.Errorf("%w: %w", ErrNodeLost, errs[i])
			}
			if errs[i] != nil {
				errs[i] = c.p.withoutSecrets(errs[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
