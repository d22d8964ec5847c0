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

// Small returns an empty folder on a disk of size bytes, which [Mount] makes.
func Small(t testing.TB, size int) string {
	t.Helper()
	dir := t.TempDir()
	Mount(t, dir, size)
	return dir
}

// Mount makes a folder a disk of size bytes until the test ends. That needs Linux and root. Otherwise the test is
// skipped, or fails if GPUTRAIN_REQUIRE_DISKFULL is set.
func Mount(t testing.TB, dir string, size int) {
	t.Helper()
	attach(t, dir, size, false)
}

// ReadOnly makes an empty folder read-only for all users, even root, until the test ends.
func ReadOnly(t testing.TB, dir string) {
	t.Helper()
	if os.Getuid() == 0 { // the folder's mode does not restrict root
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

// Fill creates file and fills its small disk, except for left bytes.
func Fill(t testing.TB, file string, left int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const most = math.MaxInt32 // larger than any small disk
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
