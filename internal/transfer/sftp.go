package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/pkg/sftp"
	"golang.org/x/sync/errgroup"
)

const (
	filesAtOnce    = 16 // concurrent files of one SFTP session
	requestsAtOnce = 64 // concurrent requests of each file
)

// listedBytes bounds one folder's listing, which is in memory as a whole: enough for a million names.
const listedBytes = 256 << 20

// A server is an SFTP session that bounds its listings.
type server struct {
	*sftp.Client
	most    int64 // bound of a listing: listedBytes
	listing atomic.Bool
	left    atomic.Int64 // what is left of most
}

// received counts the bytes that the server sends.
func (s *server) received(n int) error {
	if s.listing.Load() && s.left.Add(-int64(n)) < 0 {
		return errListing
	}
	return nil
}

// list lists a folder. There must be no other request under way.
func (s *server) list(ctx context.Context, at string) ([]fs.FileInfo, error) {
	s.left.Store(s.most)
	s.listing.Store(true)
	infos, err := s.ReadDirContext(ctx, at)
	s.listing.Store(false)
	if s.left.Load() < 0 {
		return nil, errListing
	}
	return infos, err
}

// withSFTP calls do with an SFTP session that ends with ctx.
func (r *Remote) withSFTP(ctx context.Context, about string, do func(*server) error) error {
	c := &server{most: listedBytes}
	var err error
	if c.Client, err = r.Client.SFTP(ctx, c.received); err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	err = do(c)
	var status *sftp.StatusError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errListing):
		return err
	case !errors.As(err, &status) && isGone(c.Client):
		return fmt.Errorf("%w: %w", ssh.ErrDisconnected, err)
	case errors.As(err, &status), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%s on the node: %w", about, err)
	}
	return err
}

// isGone reports whether the server no longer answers. A lost connection causes too many different errors.
func isGone(c *sftp.Client) bool {
	_, err := c.Getwd()
	return err != nil
}

// sendSFTP is send for a node without tar.
func (r *Remote) sendSFTP(ctx context.Context, d delivery, items []item, m *meter) error {
	run := func(text string) error {
		return r.stream(ctx, script(makeFolder+text, "d="+d.at, fmt.Sprintf("mode=%o", d.mode|0o700)), d.at, nil, nil)
	}
	if err := run(d.before()); err != nil {
		return err
	}
	stage := stageName()
	err := r.withSFTP(ctx, d.at, func(to *server) error {
		c := &putter{Client: to.Client, stage: stage}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(filesAtOnce)
		for i := range items {
			it := &items[i]
			if ctx.Err() != nil {
				break
			}
			if it.mode.IsDir() { // one at a time: its content follows
				if err := c.makeDir(path.Join(d.at, it.name), it.mode.Perm()|0o700); err != nil {
					g.Wait()
					return err
				}
				continue
			}
			g.Go(func() error { return c.putItem(&d, it, m) })
		}
		if err := g.Wait(); err != nil || d.manifest == nil {
			return err
		}
		return c.put(d.state, 0o600, time.Time{}, bytes.NewReader(d.manifest))
	})
	if err != nil {
		r.discardAll(ctx, d.at, stage)
		return err
	}
	return run(after(items))
}

// discardAll removes what was not renamed to its place.
func (r *Remote) discardAll(ctx context.Context, at, stage string) {
	r.clean(ctx, script(`find "$d" -name "$n*" -exec rm -f {} +`, "d="+at, "n="+stage))
}

// A putter makes things on the node by SFTP.
type putter struct {
	*sftp.Client
	stage string // the start of temporary names
	count atomic.Int64
}

func (c *putter) makeDir(at string, mode fs.FileMode) error {
	if err := c.Mkdir(at); err != nil {
		if info, statErr := c.Stat(at); statErr == nil && info.IsDir() {
			return nil
		} else if statErr == nil {
			return fmt.Errorf("%s is a folder on this machine, but not on the node", at)
		}
		return fmt.Errorf("%s: %w", at, err)
	}
	return c.Chmod(at, mode)
}

func (c *putter) putItem(d *delivery, it *item, m *meter) error {
	at := path.Join(d.at, it.name)
	if it.mode.Type() == fs.ModeSymlink {
		return c.place(at, func(stage string) error { return c.Symlink(it.target, stage) })
	}
	o := open(it)
	if d.gone.takes(it.name, o.err) {
		return nil
	}
	if o.err != nil {
		return o.err
	}
	defer o.close()
	var written time.Time
	if d.keepTimes {
		written = sentTime(o.info.ModTime())
	}
	return c.put(at, it.mode.Perm(), written, &exactly{opened: o, m: m})
}

// put writes a file on the node under a temporary name, and renames it. If written is zero the file keeps its own time.
func (c *putter) put(at string, mode fs.FileMode, written time.Time, content io.Reader) error {
	return c.place(at, func(stage string) error {
		f, err := c.OpenFile(stage, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Chmod(mode); err != nil {
			return err
		}
		if _, err := f.ReadFromWithConcurrency(content, requestsAtOnce); err != nil {
			if c.isFull(path.Dir(at)) {
				return fmt.Errorf("%w; free some there, or ask for a bigger disk", syscall.ENOSPC)
			}
			return err
		}
		if err := f.Close(); err != nil || written.IsZero() {
			return err
		}
		return c.Chtimes(stage, written, written)
	})
}

// place makes something under a temporary name in the same folder, and then renames it.
func (c *putter) place(at string, produce func(stage string) error) error {
	stage := path.Join(path.Dir(at), fmt.Sprintf("%s-%d", c.stage, c.count.Add(1)))
	err := produce(stage)
	if err == nil {
		err = c.PosixRename(stage, at)
	}
	if err != nil {
		c.Remove(stage)
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// isFull reports whether a folder's disk is full. SFTP reports that as a general failure.
func (c *putter) isFull(dir string) bool {
	const nextToNothing = 1 << 20
	disk, err := c.StatVFS(dir)
	return err == nil && disk != nil && disk.Bavail*disk.Frsize < nextToNothing
}

// An exactly reads a file that must keep its size.
type exactly struct {
	opened
	m    *meter
	done int64
}

func (e *exactly) Read(p []byte) (int, error) {
	left := e.info.Size() - e.done
	if left == 0 {
		if err := checkUnchanged(e.file, e.info); err != nil {
			return 0, err
		}
		return 0, io.EOF
	}
	n, err := e.file.Read(p[:min(int64(len(p)), left)])
	e.done += int64(n)
	e.m.count(io.Discard).Write(p[:n])
	if err == io.EOF {
		if err = checkUnchanged(e.file, e.info); err == nil {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}
