package transfer

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/pkg/sftp"
)

// getSFTP is getTar for a node without tar.
func (r *Remote) getSFTP(ctx context.Context, at, localDir, base string) error {
	return r.withSFTP(ctx, at, func(c *sftp.Client) error {
		info, err := c.Stat(at)
		switch {
		case err != nil:
			return fmt.Errorf("%s on the node: %w", at, err)
		case info.Mode().IsRegular():
			l, err := openLanding(localDir)
			if err != nil {
				return err
			}
			defer l.close()
			_, err = l.getFile(c, at, base, info)
			return err
		case !info.IsDir():
			return fmt.Errorf("%s on the node is neither a file nor a folder", at)
		}
		l, err := openLanding(filepath.Join(localDir, base))
		if err != nil {
			return err
		}
		defer l.close()
		return l.getTree(ctx, c, at, "")
	})
}

func (l *landing) getTree(ctx context.Context, c *sftp.Client, at, name string) error {
	infos, err := c.ReadDirContext(ctx, at)
	if err != nil {
		return fmt.Errorf("%s on the node: %w", at, err)
	}
	for _, info := range infos {
		from, to := path.Join(at, info.Name()), path.Join(name, info.Name())
		if strings.Contains(info.Name(), "/") {
			return fmt.Errorf("the node sent %q, which is no name of a file", info.Name())
		}
		switch info.Mode().Type() {
		case fs.ModeDir:
			if err = l.dir(to, info.Mode()); err == nil {
				err = l.getTree(ctx, c, from, to)
			}
		case fs.ModeSymlink:
			var target string
			if target, err = c.ReadLink(from); err == nil {
				err = l.symlink(to, target)
			}
		case 0:
			_, err = l.getFile(c, from, to, info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *landing) getFile(c *sftp.Client, at, name string, info fs.FileInfo) (string, error) {
	f, err := c.Open(at)
	if err != nil {
		return "", fmt.Errorf("%s on the node: %w", at, err)
	}
	defer f.Close()
	pr, pw := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := f.WriteTo(pw) // many requests at once
		pw.CloseWithError(err)
	}()
	sum, err := l.file(name, info.Mode(), info.Size(), io.LimitReader(pr, info.Size()), true)
	pr.Close()
	<-done
	return sum, err
}
