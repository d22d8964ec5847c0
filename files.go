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

	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/internal/uploads"
)

// A FileOption changes what Upload or Download does: which nodes a Download is from, see [From], or
// what becomes of symbolic links that lead out of the folder that is copied. An absolute link counts
// as one that does.
type FileOption func(*fileOptions)

type fileOptions struct {
	links []transfer.Links
	from  []Target
}

// From makes Download copy from the nodes that a target allows, and from no others:
// From(OnRank(2)). Nodes that are not ready do not count. If none is left, Download returns an
// error, which is [ErrInvalid] for a rank or labels that the pool cannot have. Upload takes no From:
// every node has what was uploaded.
func From(t Target) FileOption { return func(o *fileOptions) { o.from = append(o.from, t) } }

// KeepOutsideLinks makes Download keep links that lead out of the folder. A program that reads the
// folder later, also by an Upload, may follow them to any file of this machine that the node chose.
func KeepOutsideLinks() FileOption { return linkOption(transfer.KeepOutside) }

// SkipOutsideLinks makes Upload and Download leave out links that lead out of the folder, without
// an error.
func SkipOutsideLinks() FileOption { return linkOption(transfer.SkipOutside) }

// FollowOutsideLinks makes Upload send the targets of links that lead out of the folder. A relative
// link that stays inside, or that leads nowhere, stays a link.
func FollowOutsideLinks() FileOption { return linkOption(transfer.FollowOutside) }

func linkOption(l transfer.Links) FileOption {
	return func(o *fileOptions) { o.links = append(o.links, l) }
}

// fileOptionsOf returns what the options ask for. There may be one for links, of those allowed.
func fileOptionsOf(op string, opts []FileOption, allowed ...transfer.Links) (links transfer.Links, from Target, err error) {
	var o fileOptions
	for _, option := range opts {
		option(&o)
	}
	var f invalid.Faults
	for _, t := range o.from {
		t.validate(&f)
	}
	invalid := func(text string) error { return &Error{Op: op, Kind: ErrInvalid, Err: errors.New(text)} }
	switch {
	case len(o.from) > 0 && op == "upload":
		err = invalid("From is for Download only: an upload is for all nodes, also those that join later")
	case len(o.from) > 1:
		err = invalid("it has more than one From; OnLabels allows several nodes")
	case len(o.from) == 1:
		from, err = o.from[0], f.Err(op)
	}
	switch {
	case err != nil || len(o.links) == 0:
		return transfer.RefuseOutside, from, err
	case len(slices.Compact(o.links)) > 1:
		return 0, from, invalid("its options for links contradict each other")
	case !slices.Contains(allowed, o.links[0]):
		return 0, from, invalid("KeepOutsideLinks is for Download only, and FollowOutsideLinks for Upload")
	}
	return o.links[0], from, nil
}

// Upload copies a file or folder of this machine to every node, to the path remote: relative to the
// node's working directory, or absolute. A folder's tree is merged into what is there. A file that
// is there with the same size, time (to the second) and permission bits is not sent again, except a
// small single file. Nodes that join later get the upload before their first task, with the content
// of that time; so do all nodes if none is ready now. If another file was uploaded to the same path
// since, they get only that, and the earlier one need not stay on this machine. A file that is
// written to while it is sent is an error. What vanishes from a folder while that is sent is left
// out, and an [EventTrouble] of state "upload" names it.
//
// Only what is in the folder is sent: a symbolic link to a place in the folder stays a link, and a
// link that leads out is [ErrOutsideLink], before anything is sent, unless an option says
// otherwise. Local itself may be any link.
func (c *Compute) Upload(local, remote string, opts ...FileOption) error {
	if err := c.check(); err != nil {
		return err
	}
	links, _, err := fileOptionsOf("upload", opts, transfer.SkipOutside, transfer.FollowOutside)
	if err != nil {
		return err
	}
	if err := (transfer.Options{Links: links}).Check(local); err != nil {
		return &Error{Op: "upload", Kind: ErrInvalid, Err: transfer.Explain(err, "SkipOutsideLinks or FollowOutsideLinks")}
	}
	if remote == "" || path.Clean(remote) == "/" {
		return &Error{Op: "upload", Kind: ErrInvalid, Err: fmt.Errorf("%q is no place for a file", remote)}
	}
	if local, err = filepath.Abs(local); err != nil {
		return err
	}
	info, err := os.Stat(local)
	up := uploads.Upload{Local: local, Remote: remote, Links: links, File: err == nil && info.Mode().IsRegular()}
	c.p.mu.Lock()
	changed := c.p.uploads.Add(up)
	nodes := c.p.readyNodes()
	later := c.p.spec.MaxNodes > 0 // an elastic pool gets nodes later
	for _, m := range c.p.fleet.Members() {
		later = later || !m.State().Over()
	}
	c.p.mu.Unlock()
	if changed {
		c.p.journal.AddUpload(journal.Upload(up))
	}
	if len(nodes) == 0 && later {
		return nil
	}
	return c.each(nodes, func(ctx context.Context, n *poolNode) error { return n.upload(ctx, up) })
}

// Download copies the file or folder remote of every node into the folder local of this machine:
// that of node rank 0 arrives as local/0/<name>, and so on. [From] names other nodes than all. If a
// node does not have it, the error names that node, and the other nodes' files still arrive.
//
// Nothing outside of local is written, whatever a node sends. Local may be a symbolic link, but no
// link below it is followed. A node's link is kept if it leads to a place in the downloaded folder.
// A link that leads out is left out, and Download returns [ErrOutsideLink] when all else has
// arrived, unless an option says otherwise. If a node sends more than [Limits] allow, Download
// returns [ErrLimit].
//
// Files and folders have the permissions that they have on the node, as far as this process's umask
// lets them. They are never setuid, setgid, sticky or writable for all because of a node, and the
// owner may always read and write. So have Task.Outputs, and checkpoints.
func (c *Compute) Download(remote, local string, opts ...FileOption) error {
	if err := c.check(); err != nil {
		return err
	}
	links, from, err := fileOptionsOf("download", opts, transfer.SkipOutside, transfer.KeepOutside)
	if err != nil {
		return err
	}
	if remote == "" {
		return &Error{Op: "download", Kind: ErrInvalid, Err: errors.New("no path was given")}
	}
	nodes, err := c.sources(from)
	if err != nil {
		return err
	}
	return c.each(nodes, func(ctx context.Context, n *poolNode) error {
		progress, end := c.p.events.transfer(n.transferred("receiving", Event{Path: remote}))
		err := n.Node.Files().Download(ctx, remote, local, transfer.DownloadOptions{
			Below: strconv.Itoa(n.Rank()), Links: links, Progress: progress, Limits: n.p.opts.limits.transfer(),
		})
		end(err)
		if err != nil {
			return fmt.Errorf("node %d: download %s: %w", n.Rank(), remote, transfer.Explain(err, "KeepOutsideLinks or SkipOutsideLinks"))
		}
		return nil
	})
}

// sources returns the nodes that take tasks now and that a target allows.
func (c *Compute) sources(t Target) (nodes []*poolNode, err error) {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	nodes = p.readyNodes()
	if t.allows.IsAny() {
		return nodes, nil
	}
	allowed := p.fleet.Tasks.Allowed(t.allows, false)
	nodes = slices.DeleteFunc(nodes, func(n *poolNode) bool { return !slices.Contains(allowed, n.Slots) })
	if len(nodes) == 0 {
		return nil, p.fleet.NoneReady(t.allows, 0)
	}
	return nodes, nil
}

func (n *poolNode) upload(ctx context.Context, up uploads.Upload) error {
	progress, end := n.p.events.transfer(n.transferred("sending", Event{Path: up.Remote}))
	err := n.Node.Files().Upload(ctx, up.Local, up.Remote, transfer.Options{
		Links: up.Links, Progress: progress,
		Vanished: func(what string) {
			ev := n.event(EventTrouble, "upload")
			ev.Path, ev.Err = up.Remote, fmt.Errorf("node %d: upload %s: %s", n.Rank(), up.Remote, what)
			n.p.events.emit(ev)
		},
	})
	if end(err); err != nil {
		return fmt.Errorf("node %d: upload %s: %w", n.Rank(), up.Remote, transfer.Explain(err, "SkipOutsideLinks or FollowOutsideLinks"))
	}
	return nil
}

// join makes the node ready, once it has every upload that the others have.
func (n *poolNode) join() error {
	for done := 0; ; {
		n.p.mu.Lock()
		later := n.p.uploads.After(done)
		if len(later) == 0 {
			n.Ready()
			n.p.mu.Unlock()
			return nil
		}
		n.p.mu.Unlock()
		for _, up := range later {
			if err := n.upload(n.Node.Context(), up.Upload); err != nil && !n.p.isSuperseded(up) {
				return err
			}
			done = up.Number
		}
	}
}

// isSuperseded reports whether a later upload has replaced this one.
func (p *pool) isSuperseded(up *uploads.Item) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return up.Superseded
}

// each calls do on all nodes at once, until c's context or the node ends.
func (c *Compute) each(nodes []*poolNode, do func(context.Context, *poolNode) error) error {
	if len(nodes) == 0 {
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		return c.p.fleet.NoNodes()
	}
	c.p.use.transfers.Add(1)
	defer c.p.use.transfers.Add(-1)
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			ctx, cancel := context.WithCancelCause(c.ctx)
			defer cancel(nil)
			defer context.AfterFunc(n.Node.Context(), func() { cancel(context.Cause(n.Node.Context())) })()
			if errs[i] = do(ctx, n); errs[i] != nil && c.ctx.Err() == nil && n.Node.IsOver() {
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
