package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// A landing is a local folder in which things from a node arrive. The node is
// not trusted with it: whatever names and links it sends, nothing outside the
// folder is written.
type landing struct {
	root *os.Root
	name string
}

func openLanding(dir string) (*landing, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	return &landing{root, dir}, err
}

func (l *landing) close() error { return l.root.Close() }

// localName turns a name from the node into one here.
func localName(name string) (string, error) {
	local, err := strings.TrimSuffix(name, "/"), error(nil)
	if runtime.GOOS == "windows" {
		local, err = filepath.Localize(local)
	}
	if err != nil || !filepath.IsLocal(local) || strings.IndexByte(local, 0) >= 0 {
		return "", fmt.Errorf("the node sent %q, which is no name of a file here", name)
	}
	return filepath.Clean(local), nil
}

// dir makes a folder, or keeps the one that is there.
func (l *landing) dir(name string, mode fs.FileMode) error {
	local, err := localName(name)
	if err != nil {
		return err
	}
	if info, err := l.root.Stat(local); err == nil && info.IsDir() {
		return nil
	}
	if err := l.root.MkdirAll(local, 0o777); err != nil {
		return l.explain(err)
	}
	return l.root.Chmod(local, mode.Perm()|0o700)
}

// file writes a file of the given size and returns, if that is wanted, its
// SHA-256 in hex.
func (l *landing) file(name string, mode fs.FileMode, size int64, content io.Reader, summed bool) (string, error) {
	h := sha256.New()
	err := l.place(name, func(stage string) error {
		f, err := l.root.OpenFile(stage, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		var to io.Writer = f
		if summed {
			to = io.MultiWriter(f, h)
		}
		n, err := io.CopyBuffer(onlyWriter{to}, onlyReader{content}, make([]byte, min(chunk, max(size, 1))))
		switch {
		case err != nil:
			return err
		case n != size:
			return io.ErrUnexpectedEOF
		}
		if err := f.Chmod(mode.Perm() | 0o600); err != nil {
			return err
		}
		return f.Close()
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// symlink makes a link. Where it leads does not matter: it is never written
// through when that is outside.
func (l *landing) symlink(name, target string) error {
	return l.place(name, func(stage string) error { return l.root.Symlink(filepath.FromSlash(target), stage) })
}

// hardlink gives a file that arrived a second name.
func (l *landing) hardlink(name, old string) error {
	from, err := localName(old)
	if err != nil {
		return err
	}
	if info, err := l.root.Lstat(from); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("the node sent %q as a second name of %q, which is no file", name, old)
	}
	return l.place(name, func(stage string) error { return l.root.Link(from, stage) })
}

// look reads what a file is that arrived.
func (l *landing) look(name string) (File, error) {
	local, err := localName(name)
	if err != nil {
		return File{}, err
	}
	f, err := l.root.Open(local)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	sum, err := sumOf(f)
	return File{name, info.Size(), sum}, err
}

// remove takes back a file that arrived.
func (l *landing) remove(name string) {
	if local, err := localName(name); err == nil {
		l.root.Remove(local)
	}
}

// place makes something under another name in the same folder, and then gives
// it its own.
func (l *landing) place(name string, produce func(stage string) error) error {
	local, err := localName(name)
	if err != nil {
		return err
	}
	dir := filepath.Dir(local)
	if dir != "." {
		if err := l.root.MkdirAll(dir, 0o777); err != nil {
			return l.explain(err)
		}
	}
	stage := filepath.Join(dir, stageName())
	if err = produce(stage); err == nil {
		err = l.root.Rename(stage, local)
	}
	if err != nil {
		l.root.Remove(stage)
		return l.explain(err)
	}
	// Two names of one file are renamed into each other as a success that
	// changes nothing: the first name then is still there.
	l.root.Remove(stage)
	return nil
}

// explain names the folder, which the errors of os.Root leave out, and says that a
// full disk is this machine's.
func (l *landing) explain(err error) error {
	var p *fs.PathError
	var link *os.LinkError
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("in %s on this machine: %w; free space here, or choose a folder on another disk", l.name, err)
	case errors.As(err, &p), errors.As(err, &link):
		return fmt.Errorf("in %s: %w", l.name, err)
	}
	return err
}
