// Package disktest gives tests disks that are small, full or read-only.
package disktest

import (
	"errors"
	"io"
	"math"
	"os"
	"syscall"
	"testing"
)

// Small returns an empty folder on a disk of so many bytes, as [Mount] makes it.
func Small(t testing.TB, size int) string {
	t.Helper()
	dir := t.TempDir()
	Mount(t, dir, size)
	return dir
}

// Mount has a folder be a disk of so many bytes until the test ends. That needs Linux
// and root: otherwise the test skips, or fails where GPUTRAIN_REQUIRE_DISKFULL is set.
func Mount(t testing.TB, dir string, size int) {
	t.Helper()
	attach(t, dir, size, false)
}

// ReadOnly has an empty folder be one that nobody can write to, not even root, until
// the test ends.
func ReadOnly(t testing.TB, dir string) {
	t.Helper()
	if os.Getuid() == 0 { // who may do everything, but for that
		attach(t, dir, 4096, true)
		return
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700) })
}

func attach(t testing.TB, dir string, size int, readOnly bool) {
	t.Helper()
	if err := mount(dir, size, readOnly); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_DISKFULL") != "" {
			t.Fatalf("mount: %v, and GPUTRAIN_REQUIRE_DISKFULL is set: run this as root", err)
		}
		t.Skipf("mount: %v: run this as root", err)
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// Fill fills the small disk that a new file is on, but for so many bytes.
func Fill(t testing.TB, file string, left int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const most = math.MaxInt32 // of a disk that is not small
	n, err := io.CopyN(f, zeros{}, most)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk with %d bytes: %v", n, err)
	}
	if err := f.Truncate(n - left); err != nil {
		t.Fatal(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
