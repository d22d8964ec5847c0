package ledger

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gputrain/gputrain/internal/test/disktest"
)

func TestFullDisk(t *testing.T) {
	dir := disktest.Small(t, 64<<10)
	d, err := OpenDir(filepath.Join(dir, "state"))
	must(t, err)
	l := create(t, d, "p-1", newMachine("a"))
	filler := filepath.Join(dir, "filler")
	disktest.Fill(t, filler, 0)
	before, err := os.ReadFile(d.file("p-1", ".ledger"))
	must(t, err)
	long := Row{Name: "b", Kind: "machine", Note: strings.Repeat("x", 8<<10)}
	for range 3 {
		err := l.Intend(long)
		is(t, err, ErrFull)
		is(t, err, syscall.ENOSPC)
		if after, _ := os.ReadFile(d.file("p-1", ".ledger")); !bytes.Equal(before, after) {
			t.Fatal("the file was replaced")
		}
		s := l.Snapshot()
		wants(t, &s, "a intended")
	}
	must(t, os.Remove(filler))
	must(t, l.Intend(long))
	wants(t, read(t, d, "p-1"), "a intended", "b intended")

	// A pool that could not begin leaves nothing, however little space there was, and a pool is
	// taken either completely or not at all.
	names := files(t, d)
	for left := int64(0); left <= 16<<10; left += 4 << 10 {
		disktest.Fill(t, filler, left)
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
	disktest.Fill(t, filler, 0)
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
	disktest.Fill(t, filler, 0)
	must(t, taken.Close(true)) // ending a pool needs no space
	wantFiles(t, d)
}
