package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk mounts a file system of 64 KiB. That needs root: otherwise the test
// skips, or fails where GPUTRAIN_REQUIRE_DISKFULL is set.
func smallDisk(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_DISKFULL") != "" {
			t.Fatalf("mount: %v, and GPUTRAIN_REQUIRE_DISKFULL is set: run this as root", err)
		}
		t.Skipf("mount: %v: run this as root", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill leaves a disk so many bytes.
func fill(t testing.TB, path string, left int) {
	t.Helper()
	if err := os.WriteFile(path, make([]byte, 128<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	info, err := os.Stat(path)
	must(t, err)
	must(t, os.Truncate(path, info.Size()-int64(left)))
}

func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	d, err := OpenDir(filepath.Join(dir, "state"))
	must(t, err)
	l := create(t, d, "p-1", newMachine("a"))
	filler := filepath.Join(dir, "filler")
	fill(t, filler, 0)
	before, err := os.ReadFile(d.file("p-1", ".ledger"))
	must(t, err)
	long := Row{Name: "b", Kind: "machine", Note: strings.Repeat("x", 8<<10)}
	for range 3 {
		err := l.Intend(long)
		is(t, err, ErrFull)
		is(t, err, syscall.ENOSPC)
		if after, _ := os.ReadFile(d.file("p-1", ".ledger")); !bytes.Equal(before, after) {
			t.Fatal("the file is another")
		}
		s := l.Snapshot()
		wants(t, &s, "a intended")
	}
	must(t, os.Remove(filler))
	must(t, l.Intend(long))
	wants(t, read(t, d, "p-1"), "a intended", "b intended")

	// Nor is there more of a pool that could not begin, whatever had room, and
	// a pool is taken whole or not.
	names := files(t, d)
	for left := 0; left <= 16<<10; left += 4 << 10 {
		fill(t, filler, left)
		id := fmt.Sprint("q-", left)
		l, err := d.Create(Header{Pool: id}, newKey, long)
		if left >= 16<<10 {
			must(t, err)
			must(t, l.Close(true))
		} else {
			is(t, err, ErrFull)
		}
		wantFiles(t, d, names...)
		must(t, os.Remove(filler))
	}
	must(t, l.Close(false))
	fill(t, filler, 0)
	var taken *Ledger
	who := "h/1/" + strings.Repeat("2", 8<<10)
	_, s, err := d.Take("p-1", who, TakeOptions{})
	is(t, err, ErrFull)
	wants(t, s, "a intended", "b intended")
	if s := read(t, d, "p-1"); s.InUse || s.Torn || s.Generation != 1 {
		t.Errorf("got %+v", s)
	}
	must(t, os.Remove(filler))
	taken, s = take(t, d, "p-1", TakeOptions{})
	if s.Generation != 2 {
		t.Errorf("got %+v", s)
	}
	fill(t, filler, 0)
	must(t, taken.Close(true)) // to end a pool needs no room
	wantFiles(t, d)
}
