package transfer

import (
	"fmt"
	"hash/maphash"
	"path/filepath"
	"sync"
)

// A tally counts what arrives for one call, over all its tries: no name twice in one try, and never more in all than
// Limits allow.
type tally struct {
	most Limits

	mu    sync.Mutex
	try   int
	seeds [2]maphash.Seed
	names map[[2]uint64]claimed // by hash, since names can be long and many
	bytes int64                 // length of all names together

	leftOut outside // links of this try that were not made
}

// claimed is the name of something that arrived.
type claimed struct {
	try  int
	kind kind
	size int64
}

type kind int

const (
	otherKind kind = iota
	fileKind
	folderKind
)

func newTally(most Limits) *tally {
	return &tally{most: most, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, names: make(map[[2]uint64]claimed)}
}

// begin starts another try.
func (t *tally) begin() {
	t.try++
	t.leftOut = outside{}
}

// preload counts files that arrived in earlier calls, and that this one may replace.
func (t *tally) preload(files []File) {
	for _, f := range files {
		t.names[t.key(filepath.FromSlash(f.Name))] = claimed{t.try, fileKind, f.Size}
		t.bytes += f.Size
	}
}

func (t *tally) key(local string) [2]uint64 {
	local = folded(local)
	return [2]uint64{maphash.String(t.seeds[0], local), maphash.String(t.seeds[1], local)}
}

// claim claims the node's name for something that is about to arrive, and returns the local name.
func (t *tally) claim(name string, kind kind, size int64) (string, error) {
	local, err := nodeName(name)
	if err != nil {
		return "", err
	}
	if local == "." && kind != folderKind {
		return "", fmt.Errorf("the node sent %q, the folder itself, as something else", name)
	}
	return local, t.count(name, local, kind, size)
}

// count is claim for a name that was checked.
func (t *tally) count(name, local string, kind kind, size int64) error {
	key := t.key(local)
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.names[key]
	switch {
	case size < 0:
		return fmt.Errorf("the node sent %q with a size of %d", name, size)
	case known && was.try == t.try:
		return fmt.Errorf("the node sent %q twice", name)
	case !known && int64(len(t.names)) >= t.most.files():
		return fmt.Errorf("%q: %w", name, &LimitError{Files: true, Most: t.most.Files})
	case size > t.most.bytes()-(t.bytes-was.size):
		return fmt.Errorf("%q: %w", name, &LimitError{Most: t.most.Bytes})
	}
	t.bytes += size - was.size
	t.names[key] = claimed{t.try, kind, size}
	return nil
}

// has reports whether a file of this name arrived in this try.
func (t *tally) has(local string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.names[t.key(local)]
	return ok && c.kind == fileKind && c.try == t.try
}
