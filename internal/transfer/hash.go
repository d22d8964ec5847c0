package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// hashes caches the SHA-256 of local files as long as the program runs, because many nodes are sent the same files.
var hashes sync.Map // absolute path to *hashed

type hashed struct {
	mu   sync.Mutex // held while the file is read: others wait for the answer
	info fs.FileInfo
	sum  string
}

// The hash of a file that changed less than settled ago is not cached: the file can change again without a change of
// its time.
const settled = time.Second

// hashOf returns the SHA-256 of a file to be sent, in hex, and sets the item's size to that of what was read.
func hashOf(ctx context.Context, it *item) (string, error) {
	name, err := filepath.Abs(it.local)
	if err != nil {
		return "", err
	}
	v, _ := hashes.LoadOrStore(name, new(hashed))
	h := v.(*hashed)
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	o := open(it)
	if o.err != nil {
		return "", o.err
	}
	defer o.close()
	info := o.info
	it.size = info.Size()
	if h.info != nil && os.SameFile(h.info, info) && h.info.Size() == info.Size() && h.info.ModTime().Equal(info.ModTime()) {
		return h.sum, nil
	}
	started := time.Now()
	sum, err := sumOf(io.LimitReader(o.file, it.size)) // a log grows meanwhile
	if err != nil {
		return "", err
	}
	if h.info = nil; started.Sub(info.ModTime()) > settled {
		h.info, h.sum = info, sum
	}
	return sum, nil
}

// sumOf returns the SHA-256 of a stream in hex.
func sumOf(rd io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.CopyBuffer(onlyWriter{h}, rd, make([]byte, chunk)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
