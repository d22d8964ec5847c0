package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// getSFTP is getTar for a node without tar.
func (r *Remote) getSFTP(ctx context.Context, at string, l *landing, base string, links Links) error {
	return r.withSFTP(ctx, at, func(c *server) error {
		info, err := c.Stat(at)
		switch {
		case err != nil:
			return fmt.Errorf("%s on the node: %w", at, err)
		case info.Mode().IsRegular():
			l.meter.expect(info.Size())
			if err := l.count(base, base, fileKind, info.Size()); err != nil {
				return err
			}
			_, err := l.getFile(c, at, base, base, info, false)
			return err
		case !info.IsDir():
			return fmt.Errorf("%s on the node is neither a file nor a folder", at)
		}
		folder, err := l.below(base)
		if err != nil {
			return err
		}
		defer folder.close()
		if err := folder.dir(".", info.Mode()); err != nil {
			return err
		}
		return folder.getTree(ctx, c, at, "", links)
	})
}

func (l *landing) getTree(ctx context.Context, c *server, at, name string, links Links) error {
	infos, err := c.list(ctx, at)
	if err != nil {
		return fmt.Errorf("%s on the node: %w", at, err)
	}
	for _, info := range infos {
		if err := l.getEntry(ctx, c, path.Join(at, info.Name()), path.Join(name, info.Name()), info, links); err != nil {
			return err
		}
	}
	return nil
}

// getEntry brings an entry of a listing. The SFTP library has cut a name with slashes to its last element.
func (l *landing) getEntry(ctx context.Context, c *server, from, to string, info fs.FileInfo, links Links) error {
	switch info.Mode().Type() {
	case fs.ModeDir:
		if err := l.dir(to, info.Mode()); err != nil {
			return err
		}
		return l.getTree(ctx, c, from, to, links)
	case fs.ModeSymlink:
		target, err := c.ReadLink(from)
		if err != nil {
			return fmt.Errorf("%q on the node: %w", from, err)
		}
		return l.symlink(to, target, links)
	case 0:
		local, err := l.claim(to, fileKind, info.Size())
		if err == nil {
			_, err = l.getFile(c, from, to, local, info, false)
		}
		return err
	}
	_, err := l.claim(to, otherKind, 0) // skipped
	return err
}

// errShrunk means that a file has become shorter while it was read.
var errShrunk = errors.New("does something write to it?")

// getFile brings a file that the tally has counted, unless it has changed since it was listed.
func (l *landing) getFile(c *server, at, name, local string, info fs.FileInfo, summed bool) (arrival, error) {
	f, err := c.Open(at)
	if err != nil {
		return arrival{}, fmt.Errorf("%s on the node: %w", at, err)
	}
	defer f.Close()
	opened, err := f.Stat()
	switch {
	case err != nil:
		return arrival{}, fmt.Errorf("%s on the node: %w", at, err)
	case !opened.Mode().IsRegular():
		return arrival{}, fmt.Errorf("%q on the node was a file when it was listed, and is something else now", at)
	case opened.Size() < info.Size():
		return arrival{}, fmt.Errorf("%q on the node had %d bytes, and has %d now that it is opened: %w", at, info.Size(), opened.Size(), errShrunk)
	}
	pr, pw := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := f.WriteTo(pw) // with many requests at once
		if err == nil {
			err = fmt.Errorf("%q on the node ended before its %d bytes: %w %w", at, info.Size(), errShrunk, io.ErrUnexpectedEOF)
		}
		pw.CloseWithError(err)
	}()
	a, err := l.file(name, local, info.Mode(), info.Size(), io.LimitReader(pr, info.Size()), summed)
	pr.Close()
	<-done
	return a, err
}
