package record

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gputrain/gputrain/internal/test/disktest"
)

func TestFullDisk(t *testing.T) {
	dir := disktest.Small(t, 64<<10)
	path := filepath.Join(dir, "f")
	f, err := Create(path)
	must(t, err)
	defer f.Close()
	must(t, f.Append(true, rec(`{"a":1}`)))
	before := f.Size()
	for _, sync := range []bool{true, false} {
		// The first part of these records fits.
		err = f.Append(sync, rec(`{"a":2}`), rec(`{"a":3}`, strings.Repeat("x", 100<<10)))
		if !errors.Is(err, syscall.ENOSPC) || !IsFull(err) {
			t.Errorf("on a full disk: %v", err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != before || f.Size() != before {
			t.Errorf("%v: size %d, was %d", err, info.Size(), before)
		}
	}
	filler := filepath.Join(dir, "filler")
	disktest.Fill(t, filler, 0)
	if _, err := Rewrite(path, true, func(yield func(Record, error) bool) { yield(rec(`{"a":4}`), nil) }); !IsFull(err) {
		t.Errorf("rewriting on a full disk: %v", err)
	}
	if names, _ := filepath.Glob(dir + "/*"); len(names) != 2 {
		t.Errorf("the files %q are left", names)
	}
	must(t, os.Remove(filler))
	must(t, f.Append(true, rec(`{"a":5}`)))
	wants(t, Read(path), `{"a":1}`, `{"a":5}`)
}

// If half a record cannot be cut off, nothing is appended after it.
func TestBroken(t *testing.T) {
	dir := disktest.Small(t, 64<<10)
	path := filepath.Join(dir, "f")
	f, err := Create(path)
	must(t, err)
	defer f.Close()
	must(t, f.Append(true, rec(`{"a":1}`)))
	must(t, os.WriteFile(path, append([]byte("somebody else's\n"), make([]byte, 50)...), 0o600)) // truncates, and writes more
	if err := f.Append(true, rec(`{"a":2}`, strings.Repeat("x", 100<<10))); !IsFull(err) || !strings.Contains(err.Error(), "half a record") {
		t.Errorf("another program has written, and the disk is full: %v", err)
	}
	for range 2 {
		if err := f.Append(true, rec(`{"a":3}`)); err == nil || !strings.Contains(err.Error(), "half a record") {
			t.Errorf("after half a record: %v", err)
		}
	}
	if err := f.Sync(); err == nil {
		t.Error("a broken file can be synced")
	}
}
