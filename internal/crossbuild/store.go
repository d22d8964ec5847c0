package crossbuild

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/private"
)

const (
	// keptFiles and keptBytes bound what is kept of earlier builds.
	keptFiles = 16
	keptBytes = 1 << 30
	// abandonedAfter is when a build that has not ended must have been killed.
	abandonedAfter = 24 * time.Hour

	scratchPrefix = "building-"
)

// A store keeps what was built, in a folder of its own that the programs of this user
// share, and no other user can write to: files by what they are for and by their
// content, which are complete from the moment they have their name.
type store struct{ dir string }

func userStore() (store, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return store{}, fmt.Errorf("there is no folder to keep what is built: %w", err)
	}
	return store{filepath.Join(cache, "gputrain", "workers")}, nil
}

// scratch makes a folder for one build. What is kept begins the next build, and so
// is in a folder of this user's alone.
func (s store) scratch() (string, error) {
	err := private.CheckPath(s.dir)
	if err == nil {
		err = private.MakeDir(s.dir)
	}
	if err == nil {
		err = new(private.Sealed).Check(s.dir)
	}
	if err != nil {
		return "", fmt.Errorf("the folder to keep what is built: %w", err)
	}
	return os.MkdirTemp(s.dir, scratchPrefix)
}

// seed copies the last build of the same to a file, whole or not at all: where
// nothing has changed, the go command takes it as it is.
func (s store) seed(key, to string) {
	for _, e := range s.entries() {
		was, digest, _ := strings.Cut(e.Name(), "-")
		if was != key {
			continue
		}
		if s.take(e.Name(), to) != nil || !hasDigest(to, digest) {
			_ = os.Remove(to)
		}
		return
	}
}

// take copies a file of the store. One that is not this user's is not taken.
func (s store) take(name, to string) error {
	in, err := private.Open(filepath.Join(s.dir, name))
	if err != nil {
		return err
	}
	defer in.Close()
	return copyTo(in, to)
}

func hasDigest(file, digest string) bool {
	sum, err := digestOf(file)
	return err == nil && sum == digest
}

// keep gives a file its name in the store, and returns it open: it can be read
// whatever becomes of the name.
func (s store) keep(key, file string) (*Binary, error) {
	digest, err := digestOf(file)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(s.dir, key+"-"+digest)
	if err := errors.Join(os.Chmod(file, 0o700), os.Chtimes(file, time.Now(), time.Now())); err != nil {
		return nil, err
	}
	if err := os.Rename(file, name); err != nil {
		// Windows replaces no file that another program reads. It has the same content.
		if !hasDigest(name, digest) {
			return nil, err
		}
	}
	f, err := private.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	s.prune()
	return &Binary{Digest: digest, size: info.Size(), file: f}, nil
}

// entries returns what is kept, the newest first.
func (s store) entries() []fs.FileInfo {
	var infos []fs.FileInfo
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !strings.HasPrefix(e.Name(), scratchPrefix) {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	return infos
}

// prune removes the oldest beyond the bounds, and what killed programs left.
// Programs that still read what is removed have it open.
func (s store) prune() {
	var bytes int64
	for i, e := range s.entries() {
		if bytes += e.Size(); i >= keptFiles || i > 0 && bytes > keptBytes {
			_ = os.Remove(filepath.Join(s.dir, e.Name()))
		}
	}
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), scratchPrefix) && time.Since(info.ModTime()) > abandonedAfter {
			_ = os.RemoveAll(filepath.Join(s.dir, e.Name()))
		}
	}
}

func digestOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
