package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
)

// SelfDigest returns a path from which the running program can be read, and the SHA-256 of its content in hexadecimal.
// On Linux this is the file that is running, even if another one has replaced it since.
func SelfDigest() (path, digest string, err error) {
	d, err := selfDigest()
	return d.path, d.sum, err
}

type digestOf struct{ path, sum string }

var selfDigest = sync.OnceValues(func() (digestOf, error) {
	path, err := selfPath()
	if err != nil {
		return digestOf{}, fmt.Errorf("find the running program: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return digestOf{}, fmt.Errorf("read the running program: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return digestOf{}, fmt.Errorf("read the running program: %w", err)
	}
	return digestOf{path, hex.EncodeToString(h.Sum(nil))}, nil
})

func selfPath() (string, error) {
	const running = "/proc/self/exe"
	path, err := os.Executable()
	if runtime.GOOS != "linux" {
		return path, err
	}
	self, selfErr := os.Stat(running)
	if selfErr != nil {
		return path, err // no /proc here
	}
	if named, nameErr := os.Stat(path); err == nil && nameErr == nil && os.SameFile(self, named) {
		return path, nil
	}
	return running, nil
}
