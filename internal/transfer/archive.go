package transfer

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// An archive is a tar stream to a node. It is in GNU's format, which all tars read and which takes names of any bytes.
type archive struct {
	tw    *tar.Writer
	meter *meter
	buf   []byte
}

func newArchive(w io.Writer, m *meter) *archive {
	return &archive{tw: tar.NewWriter(w), meter: m, buf: make([]byte, chunk)}
}

// add writes items under a folder of the archive.
func (a *archive) add(ctx context.Context, folder string, items []item) error {
	ahead := readAhead(ctx, items)
	defer ahead.stop()
	for i := range items {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := a.addItem(folder, &items[i], ahead); err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) addItem(folder string, it *item, ahead *ahead) error {
	h := &tar.Header{Format: tar.FormatGNU, Name: folder + "/" + it.name, Mode: int64(it.mode.Perm()), ModTime: sentTime(it.mtime)}
	switch it.mode.Type() {
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, strings.TrimSuffix(h.Name, "/")+"/"
		h.Mode |= 0o700 // until its content is there
	case fs.ModeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, it.target
	default:
		return a.addFile(h, it, ahead)
	}
	return a.tw.WriteHeader(h)
}

func (a *archive) addFile(h *tar.Header, it *item, ahead *ahead) error {
	o := ahead.open(it)
	if o.err != nil {
		return o.err
	}
	defer o.close()
	// It may differ from the listed file, but must not change from here on.
	h.Typeflag, h.Size, h.ModTime = tar.TypeReg, o.info.Size(), sentTime(o.info.ModTime())
	if err := a.tw.WriteHeader(h); err != nil {
		return err
	}
	var sum hash.Hash
	to := a.meter.count(a.tw)
	if it.sum != "" {
		sum = sha256.New()
		to = io.MultiWriter(to, sum)
	}
	var err error
	if o.file == nil {
		_, err = to.Write(o.data)
	} else {
		err = copyUnchanged(to, o.file, o.info, a.buf)
	}
	if err == nil && sum != nil && hex.EncodeToString(sum.Sum(nil)) != it.sum {
		err = errChanged(it.local, it.size, o.info.Size())
	}
	return err
}

// text writes a file whose content is in memory.
func (a *archive) text(name string, content []byte) error {
	err := a.tw.WriteHeader(&tar.Header{Format: tar.FormatGNU, Typeflag: tar.TypeReg, Name: name, Mode: 0o600, ModTime: time.Unix(0, 0), Size: int64(len(content))})
	if err == nil {
		_, err = a.tw.Write(content)
	}
	return err
}

// open opens a file to be sent. If something else has taken its place, such as a link or a pipe, open fails.
func open(it *item) opened {
	f, err := it.open()
	if err != nil {
		return opened{err: err}
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || !it.is(info)) {
		err = fmt.Errorf("%s is no longer a file", it.local)
	}
	if err != nil {
		f.Close()
		return opened{err: err}
	}
	return opened{file: f, info: info}
}

func (it *item) open() (*os.File, error) {
	if it.root == nil {
		return os.OpenFile(it.local, os.O_RDONLY|nonBlocking, 0)
	}
	f, err := it.root.OpenFile(it.path, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", it.local, err)
	}
	return f, nil
}

// is reports whether the opened file is the one at the item's path, and not one that a link leads to.
func (it *item) is(info fs.FileInfo) bool {
	if it.root == nil {
		return true
	}
	there, err := it.root.Lstat(it.path)
	return err == nil && os.SameFile(there, info)
}

// nonBlocking is the flag to open a pipe without waiting for its other end.
var nonBlocking = func() int {
	if runtime.GOOS == "windows" {
		return 0
	}
	return syscall.O_NONBLOCK
}()
