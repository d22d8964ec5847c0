package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
	gone  *vanished
	buf   []byte
}

func newArchive(w io.Writer, m *meter, gone *vanished) *archive {
	return &archive{tw: tar.NewWriter(w), meter: m, gone: gone, buf: make([]byte, chunk)}
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
	if a.gone.takes(it.name, o.err) {
		return nil
	}
	if o.err != nil {
		return o.err
	}
	defer o.close()
	// It may differ from the listed file, but must not change from here on.
	h.Typeflag, h.Size, h.ModTime = tar.TypeReg, o.info.Size(), sentTime(o.info.ModTime())
	if it.sum != "" {
		return a.addSummed(h, it, o)
	}
	if err := a.tw.WriteHeader(h); err != nil {
		return err
	}
	to := a.meter.count(a.tw)
	if o.file == nil {
		_, err := to.Write(o.data)
		return err
	}
	return copyUnchanged(to, o.file, o.info, a.buf)
}

// addSummed writes a file whose SHA-256 is known: as much of it as was read for that, since logs grow meanwhile.
func (a *archive) addSummed(h *tar.Header, it *item, o opened) error {
	h.Size = it.size
	if err := a.tw.WriteHeader(h); err != nil {
		return err
	}
	var content io.Reader = bytes.NewReader(o.data)
	if o.file != nil {
		content = o.file
	}
	sum := sha256.New()
	to := io.MultiWriter(a.meter.count(a.tw), sum)
	n, err := io.CopyBuffer(onlyWriter{to}, onlyReader{io.LimitReader(content, it.size)}, a.buf)
	if err == nil && (n < it.size || hex.EncodeToString(sum.Sum(nil)) != it.sum) {
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
		err = fmt.Errorf("%s %w", it.local, errReplaced)
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
