package gputrain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/gputrain/gputrain/internal/transfer"
)

// A FileOption changes what Upload or Download does with symbolic links that lead
// out of the folder that is copied. An absolute link counts as such a one.
type FileOption func(*fileOptions)

type fileOptions struct {
	links []transfer.Links
}

// KeepOutsideLinks has Download place links that lead out of the folder as they are.
// What then reads the folder, also a later Upload of another program, may follow
// them to any file of this machine that the node chose.
func KeepOutsideLinks() FileOption { return linkOption(transfer.KeepOutside) }

// SkipOutsideLinks has Upload and Download leave out links that lead out of the
// folder, without an error.
func SkipOutsideLinks() FileOption { return linkOption(transfer.SkipOutside) }

// FollowOutsideLinks has Upload send what links lead to that lead out of the folder.
// A link that is relative and stays inside, or leads nowhere, stays a link.
func FollowOutsideLinks() FileOption { return linkOption(transfer.FollowOutside) }

func linkOption(l transfer.Links) FileOption {
	return func(o *fileOptions) { o.links = append(o.links, l) }
}

// linksOf returns what the options say, of which there may be one of those allowed.
func linksOf(op string, opts []FileOption, allowed ...transfer.Links) (transfer.Links, error) {
	var o fileOptions
	for _, option := range opts {
		option(&o)
	}
	switch {
	case len(o.links) == 0:
		return transfer.RefuseOutside, nil
	case len(slices.Compact(o.links)) > 1:
		return 0, &Error{Op: op, Kind: ErrInvalid, Err: errors.New("its options for links contradict each other")}
	case !slices.Contains(allowed, o.links[0]):
		return 0, &Error{Op: op, Kind: ErrInvalid, Err: errors.New("KeepOutsideLinks is for Download only, and FollowOutsideLinks for Upload")}
	}
	return o.links[0], nil
}

// Upload copies a file or folder of this machine to every node, to the path
// remote: relative to the node's working directory, or absolute. A folder's
// tree is merged into what is there. What is there already with the same size,
// time (to the second) and permission bits is not sent again, except small
// single files. Nodes that join later get it before their first task, as it is
// then: all of them, where none is ready now. If another file was uploaded to the
// same path since, they get only that one, and the earlier one need not stay on this machine.
// A file that is written to while it is sent is an error.
//
// Nothing is sent that is not in the folder: a symbolic link stays one if it leads
// to a place in the folder, and one that leads out is [ErrOutsideLink], before
// anything is sent, unless an option says otherwise. Local itself may be any link.
func (c *Compute) Upload(local, remote string, opts ...FileOption) error {
	if err := c.check(); err != nil {
		return err
	}
	links, err := linksOf("upload", opts, transfer.SkipOutside, transfer.FollowOutside)
	if err != nil {
		return err
	}
	if err := (transfer.Options{Links: links}).Check(local); err != nil {
		return &Error{Op: "upload", Kind: ErrInvalid, Err: explainFiles(err, "SkipOutsideLinks or FollowOutsideLinks")}
	}
	if remote == "" || path.Clean(remote) == "/" {
		return &Error{Op: "upload", Kind: ErrInvalid, Err: fmt.Errorf("%q is no place for a file", remote)}
	}
	if local, err = filepath.Abs(local); err != nil {
		return err
	}
	info, err := os.Stat(local)
	up := upload{Local: local, Remote: remote, Links: links, File: err == nil && info.Mode().IsRegular()}
	c.p.mu.Lock()
	changed := c.p.uploads.add(up)
	nodes := c.p.readyLocked()
	later := c.p.spec.MaxNodes > 0 // or of those that are on their way up
	for _, n := range c.p.nodes {
		later = later || !n.state.over()
	}
	c.p.mu.Unlock()
	if changed {
		c.p.journal.note(keptUpload, keptFiles(up))
	}
	if len(nodes) == 0 && later {
		return nil
	}
	return c.each(nodes, func(ctx context.Context, n *poolNode) error { return n.upload(ctx, up) })
}

// Download copies the file or folder remote of every node into the folder
// local of this machine: that of node rank 0 arrives as local/0/<name>, and so on.
// A node that does not have it is an error that names the node; what the others
// have is there all the same.
//
// Nothing outside of local is written, whatever a node sends. Local may be a symbolic
// link, but none below it is followed. A link of the node's is placed if it leads
// to a place in the folder that is downloaded. One that leads out is left out and is
// [ErrOutsideLink] when all else has arrived, unless an option says otherwise. More
// than [Limits] allow is [ErrLimit].
func (c *Compute) Download(remote, local string, opts ...FileOption) error {
	if err := c.check(); err != nil {
		return err
	}
	links, err := linksOf("download", opts, transfer.SkipOutside, transfer.KeepOutside)
	if err != nil {
		return err
	}
	if remote == "" {
		return &Error{Op: "download", Kind: ErrInvalid, Err: errors.New("no path was given")}
	}
	c.p.mu.Lock()
	nodes := c.p.readyLocked()
	c.p.mu.Unlock()
	return c.each(nodes, func(ctx context.Context, n *poolNode) error {
		err := n.remote.Download(ctx, remote, local, transfer.DownloadOptions{
			Below: strconv.Itoa(n.rank()), Links: links, Limits: n.p.opts.limits.transfer(),
		})
		if err != nil {
			return fmt.Errorf("node %d: download %s: %w", n.rank(), remote, explainFiles(err, "KeepOutsideLinks or SkipOutsideLinks"))
		}
		return nil
	})
}

// explainFiles says what the caller can do about an error of internal/transfer.
func explainFiles(err error, options string) error {
	var limit *transfer.LimitError
	switch {
	case errors.As(err, &limit) && limit.Files:
		return fmt.Errorf("%w: %w; for more set Limits.DownloadFiles, by WithLimits", ErrLimit, err)
	case errors.As(err, &limit):
		return fmt.Errorf("%w: %w; for more set Limits.DownloadBytes, by WithLimits", ErrLimit, err)
	case errors.Is(err, ErrOutsideLink):
		return fmt.Errorf("%w; see the options %s", err, options)
	}
	return err
}

func (n *poolNode) upload(ctx context.Context, up upload) error {
	if err := n.remote.Upload(ctx, up.Local, up.Remote, transfer.Options{Links: up.Links}); err != nil {
		return fmt.Errorf("node %d: upload %s: %w", n.rank(), up.Remote, explainFiles(err, "SkipOutsideLinks or FollowOutsideLinks"))
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
