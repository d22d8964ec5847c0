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
	// keptFiles and keptBytes bound the store.
	keptFiles = 16
	keptBytes = 1 << 30
	// A build that has not ended after abandonedAfter must have been killed.
	abandonedAfter = 24 * time.Hour

	scratchPrefix = "building-"
)

// A store keeps built programs in a folder that all programs of this user share, and that no other
// user can write to. Files are named by their purpose and content, and are complete once they have
// their name.
type store struct{ dir string }

func userStore() (store, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return store{}, fmt.Errorf("there is no folder for built programs: %w", err)
	}
	return store{filepath.Join(cache, "gputrain", "workers")}, nil
}

// scratch makes a folder for one build. Since the next build starts from stored files, it is in a
// folder of this user alone.
func (s store) scratch() (string, error) {
	err := private.CheckPath(s.dir)
	if err == nil {
		err = private.MakeDir(s.dir)
	}
	if err == nil {
		err = new(private.Sealed).Check(s.dir)
	}
	if err != nil {
		return "", fmt.Errorf("the folder for built programs: %w", err)
	}
	return os.MkdirTemp(s.dir, scratchPrefix)
}

// seed copies the result of the last such build to a file, completely or not at all. If nothing has
// changed, the go command uses it as it is.
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

// take copies a file of the store, if it belongs to this user.
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

// keep gives a file its name in the store, and returns it open, so that it can be read even if the
// name is removed.
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
		// Windows does not replace a file that another program reads. That file has the same
		// content.
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

// entries returns the stored files, the newest first.
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

// prune removes the oldest files beyond the bounds, and the files of killed programs. Programs that
// still read a removed file have it open.
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
