package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/record"
)

// A change is visible to another reader when the call returns.
func TestLife(t *testing.T) {
	d := openDir(t)
	usd := 2.5
	l := create(t, d, "p-1", Row{Name: "a", Kind: "machine", Token: "k"}, newMachine("b"))
	step := func(err error, want ...string) {
		t.Helper()
		must(t, err)
		wants(t, read(t, d, "p-1"), want...)
		s := l.Snapshot()
		wants(t, &s, want...)
	}
	step(nil, "a intended", "b intended")
	step(l.Intend(newMachine("c")), "a intended", "b intended", "c intended")
	step(l.Created(Row{Name: "a", Kind: "else", Rank: 7, ID: "i-1", HourlyUSD: &usd, HostKeys: []string{"ssh"}}), "a created", "b intended", "c intended")
	step(l.Leased(Row{Name: "a", Root: "/root"}, newMachine("b")), "a leased", "b leased", "c intended")
	step(l.Created(Row{Name: "a", Region: "r"}), "a leased", "b leased", "c intended") // adds fields, and does not step back
	step(l.Ending("a", "nobody"), "a ending", "b leased", "c intended")
	step(l.Leased(Row{Name: "a", InstanceType: "gpu"}), "a ending", "b leased", "c intended")
	step(l.Gone("it says so", "a", "c", "nobody"), "a gone", "b leased", "c gone")
	step(l.Ending("a", "c"), "a gone", "b leased", "c gone")
	step(l.Created(newMachine("d")), "a gone", "b leased", "c gone", "d created") // was not intended
	step(l.Created(Row{Name: "c", ID: "i-3"}), "a gone", "b leased", "c created", "d created")

	s := read(t, d, "p-1")
	a := s.Rows[0]
	if a.Kind != "machine" || a.Rank != 0 || a.Token != "k" || a.ID != "i-1" || *a.HourlyUSD != usd || a.Root != "/root" ||
		a.Region != "r" || a.InstanceType != "gpu" || a.Note != "it says so" || !slices.Equal(a.HostKeys, []string{"ssh"}) {
		t.Errorf("a is %+v", a)
	}
	if a.Intended.IsZero() || a.Created.Before(a.Intended) || a.Leased.Before(a.Created) || a.Ending.Before(a.Leased) || a.Gone.Before(a.Ending) {
		t.Errorf("a's times are %+v", a)
	}
	if b := s.Rows[1]; b.Created.IsZero() { // leased is there
		t.Errorf("b is %+v", b)
	}
	if c := s.Rows[2]; !c.Gone.IsZero() || c.ID != "i-3" {
		t.Errorf("c, found after all, is %+v", c)
	}
	if s.Name != "mine" || s.Generation != 1 || !s.InUse || s.Closing || s.Torn || s.Damage != nil || s.Last.IsZero() || s.Schema != Schema {
		t.Errorf("the pool is %+v", s)
	}
	must(t, l.Closing())
	size := l.file.Size()
	must(t, l.Closing())
	must(t, l.Gone("", "a", "nobody"))
	must(t, l.Intend())
	if l.file.Size() != size {
		t.Error("calls that change nothing have written lines")
	}
	must(t, l.Renew())
	if s := read(t, d, "p-1"); !s.Closing || l.file.Size() == size {
		t.Errorf("the pool is %+v", s)
	}
}

// A name that is gone and intended again may exist: a ledger that still called it gone would leak
// the machine.
func TestIntendedAnew(t *testing.T) {
	d := openDir(t)
	l := create(t, d, "p-1", Row{Name: "shared", Kind: "shared"})
	must(t, l.Created(Row{Name: "shared", ID: "old"}))
	must(t, l.Gone("", "shared"))
	gone := l.Snapshot().Rows[0]
	gone.ID = ""
	must(t, l.Intend(gone))
	s := read(t, d, "p-1")
	wants(t, s, "shared intended")
	if r := s.Rows[0]; r.ID != "" || !r.Created.IsZero() || !r.Gone.IsZero() {
		t.Errorf("it is %+v", r)
	}
}

func TestRowsAreTheCallersOwn(t *testing.T) {
	d := openDir(t)
	usd, keys := 1.0, []string{"one"}
	rows := []Row{{Name: "a", Kind: "machine", HourlyUSD: &usd, HostKeys: keys}}
	l := create(t, d, "p-1")
	must(t, l.Created(rows...))
	usd, keys[0], rows[0].Name = 2, "two", "b"
	if r := l.Snapshot().Rows[0]; *r.HourlyUSD != 1 || r.HostKeys[0] != "one" || r.Name != "a" {
		t.Errorf("the book has %+v", r)
	}
}

// A wrong change is refused, but not the changes that are written with it.
func TestWrongChange(t *testing.T) {
	d := openDir(t)
	l := create(t, d, "p-1")
	b := holdBatch(t, l, 5, func(i int) error {
		switch i {
		case 2:
			return l.Intend(newMachine("x"), Row{Name: "no kind"})
		case 3:
			return l.Intend(Row{Name: "long", Kind: "machine", Note: strings.Repeat("x", record.MaxHead)})
		}
		return l.Intend(newMachine(fmt.Sprint(i)))
	})
	for i, err := range b {
		if (err != nil) != (i == 2 || i == 3) {
			t.Errorf("%d: %v", i, err)
		}
	}
	s := read(t, d, "p-1")
	got := states(s)
	slices.Sort(got)
	if want := []string{"0 intended", "1 intended", "4 intended"}; !slices.Equal(got, want) || s.Damage != nil {
		t.Errorf("got %q, %v", got, s.Damage)
	}
	mine := l.Snapshot()
	wants(t, &mine, states(s)...)
	if err := l.Leased(newMachine("never heard of")); err == nil {
		t.Error("a row that was not created can be leased")
	}
	wants(t, read(t, d, "p-1"), states(s)...)
}

// holdBatch makes n changes while the ledger is busy, so that they are one batch.
func holdBatch(t *testing.T, l *Ledger, n int, f func(int) error) []error {
	t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	l.writing.Lock()
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		waiting := 0
		if l.waiting != nil {
			waiting = len(l.waiting.changes)
		}
		l.mu.Unlock()
		if waiting == n {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d changes of %d wait", waiting, n)
		}
	}
	l.writing.Unlock()
	all.Wait()
	return errs
}

// Changes that come while the ledger is busy are one batch, with one append and so one fsync.
func TestGroup(t *testing.T) {
	d := openDir(t)
	l := create(t, d, "p-1")
	for _, err := range holdBatch(t, l, 100, func(i int) error { return l.Intend(newMachine(fmt.Sprint(i))) }) {
		must(t, err)
	}
	if n := len(read(t, d, "p-1").Rows); n != 100 {
		t.Errorf("%d of 100 rows", n)
	}
	var all sync.WaitGroup
	for g := range 100 {
		all.Go(func() {
			name := fmt.Sprint("g", g)
			err := errors.Join(l.Intend(newMachine(name)), l.Created(Row{Name: name, ID: "i"}))
			s, readErr := d.Read("p-1")
			if readErr != nil || err != nil || !slices.Contains(states(s), name+" created") {
				t.Errorf("%s is not there: %v, %v", name, err, readErr)
			}
			l.Snapshot()
		})
	}
	all.Wait()
	if s := read(t, d, "p-1"); len(s.Rows) != 200 || s.Damage != nil {
		t.Errorf("%d rows, %v", len(s.Rows), s.Damage)
	}
}

// A change that waits is refused if the pool is closed before its turn.
func TestCloseWhileAChangeWaits(t *testing.T) {
	d := openDir(t)
	l := create(t, d, "p-1")
	for range 50 {
		l, _ = func() (*Ledger, error) {
			must(t, l.Close(false))
			l, _ = take(t, d, "p-1", TakeOptions{})
			return l, nil
		}()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if err := l.Intend(newMachine(fmt.Sprint(i))); err != nil && !errors.Is(err, fs.ErrClosed) {
					t.Error(err)
				}
			})
		}
		all.Go(func() { l.Close(false) })
		all.Wait()
	}
}

func TestAfterClose(t *testing.T) {
	for _, remove := range []bool{false, true} {
		d := openDir(t)
		l := create(t, d, "p-1", newMachine("a"))
		must(t, l.Close(remove))
		must(t, l.Close(remove))
		must(t, l.Close(true)) // removes nothing now
		before := files(t, d)
		for name, f := range map[string]func() error{
			"Intend": func() error { return l.Intend(newMachine("b")) }, "Created": func() error { return l.Created(newMachine("a")) },
			"Leased": func() error { return l.Leased(newMachine("a")) }, "Ending": func() error { return l.Ending("a") },
			"Gone": func() error { return l.Gone("", "a") }, "Closing": l.Closing, "Renew": l.Renew,
		} {
			if err := f(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		must(t, l.Fenced())
		if s := l.Snapshot(); s.InUse || len(s.Rows) != 1 {
			t.Errorf("got %+v", s)
		}
		if _, err := l.Key(); (err != nil) != remove {
			t.Errorf("key: %v", err)
		}
		wantFiles(t, d, before...)
	}
}

func TestCloseAndTake(t *testing.T) {
	d := openDir(t)
	l := create(t, d, "p-1", newMachine("a"))
	must(t, os.WriteFile(l.TasksPath(), []byte("tasks"), 0o600))
	must(t, l.Close(false))
	if s := read(t, d, "p-1"); s.InUse {
		t.Error("a released pool is in use")
	}
	l, s := take(t, d, "p-1", TakeOptions{})
	wants(t, s, "a intended")
	if !s.InUse || s.Generation != 2 || l.Generation() != 2 {
		t.Errorf("got %+v", s)
	}
	if key, err := l.Key(); err != nil || !bytes.Equal(key, newKey) {
		t.Errorf("the key is %q, %v", key, err)
	}
	if b, err := os.ReadFile(l.TasksPath()); err != nil || string(b) != "tasks" {
		t.Errorf("the tasks are %q, %v", b, err)
	}
	must(t, l.Intend(newMachine("b")))
	wants(t, read(t, d, "p-1"), "a intended", "b intended")
	must(t, l.Close(true))
	wantFiles(t, d)
	_, err := d.Read("p-1")
	is(t, err, ErrUnknown)
	_, _, err = d.Take("p-1", "h/1/2", TakeOptions{Force: true, Damaged: true})
	is(t, err, ErrUnknown)
	wantFiles(t, d)
}

// A program that is fenced off writes nothing, and removes nothing of its successor.
func TestFenced(t *testing.T) {
	d := openDir(t)
	old := create(t, d, "p-1", newMachine("a"))
	must(t, old.Fenced())
	_, _, err := d.Take("p-1", "h/1/2", TakeOptions{})
	is(t, err, ErrInUse)
	l, _ := take(t, d, "p-1", TakeOptions{Force: true})
	must(t, l.Intend(newMachine("b")))
	is(t, old.Intend(newMachine("c")), ErrFenced)
	is(t, old.Fenced(), ErrFenced)
	must(t, l.Intend(newMachine("d")))
	must(t, l.Close(false))
	if read(t, d, "p-1").InUse {
		t.Error("a program that is fenced off keeps the pool in use")
	}
	l, _ = take(t, d, "p-1", TakeOptions{})
	wants(t, read(t, d, "p-1"), "a intended", "b intended", "d intended")
	before := files(t, d)
	must(t, old.Close(true))
	is(t, old.Fenced(), ErrFenced)
	wantFiles(t, d, before...)
	if !read(t, d, "p-1").InUse {
		t.Error("the pool is no longer in use")
	}
	must(t, l.Fenced())
}

// A program that has taken a pool and ended it has fenced off the earlier program, which leaves
// nothing when it comes back.
func TestEndedByAnother(t *testing.T) {
	for name, f := range map[string]func(*Ledger) error{
		"change": func(l *Ledger) error { return l.Intend(newMachine("b")) },
		"Fenced": (*Ledger).Fenced,
		"Close":  func(l *Ledger) error { l.Close(true); return l.Fenced() },
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint(name, again), func(t *testing.T) {
				d := openDir(t)
				old := create(t, d, "p-1", newMachine("a"))
				l, _ := take(t, d, "p-1", TakeOptions{Force: true})
				must(t, l.Close(true))
				wantFiles(t, d)
				if again {
					l = create(t, d, "p-1", newMachine("new"))
				}
				before := files(t, d)
				is(t, f(old), ErrFenced)
				must(t, old.Close(true))
				wantFiles(t, d, before...)
				if again {
					must(t, l.Fenced())
				}
			})
		}
	}
}

// Editing, replacing or removing a ledger does not take the pool: its program gets an error, writes
// nothing, and can still end everything.
func TestChanged(t *testing.T) {
	for name, change := range map[string]func(path string, b []byte) error{
		"longer":  func(path string, b []byte) error { return os.WriteFile(path, append([]byte("x\n\n"), b...), 0o600) },
		"shorter": func(path string, b []byte) error { return os.WriteFile(path, b[10:], 0o600) },
		"removed": func(path string, _ []byte) error { return os.Remove(path) },
		"replaced": func(path string, b []byte) error {
			return errors.Join(os.WriteFile(path+"~", b, 0o600), os.Rename(path+"~", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" {
				t.Skip("Windows does not replace open files")
			}
			d := openDir(t)
			l := create(t, d, "p-1", newMachine("a"))
			path := d.file("p-1", ".ledger")
			whole, err := os.ReadFile(path)
			must(t, err)
			must(t, change(path, whole))
			edited, _ := os.ReadFile(path)
			is(t, l.Intend(newMachine("b")), ErrChanged)
			is(t, l.Fenced(), ErrChanged)
			if now, _ := os.ReadFile(path); !bytes.Equal(now, edited) {
				t.Error("the ledger was written to")
			}
			s := l.Snapshot()
			wants(t, &s, "a intended")
			if name == "longer" || name == "shorter" {
				must(t, os.WriteFile(path, whole, 0o600))
				must(t, l.Intend(newMachine("b")))
				must(t, change(path, whole))
			}
			must(t, l.Close(true))
			wantFiles(t, d)
		})
	}
}

func TestFolderRemoved(t *testing.T) {
	d := openDir(t)
	l := create(t, d, "p-1", newMachine("a"))
	if err := os.RemoveAll(filepath.Dir(d.path)); err != nil {
		if runtime.GOOS == "windows" {
			t.Skip(err) // an open file cannot be replaced here
		}
		t.Fatal(err)
	}
	if err := l.Intend(newMachine("b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	must(t, l.Close(true))
}

// A program that is killed while it takes a pool may leave its lock and half a line. The owner,
// which was not fenced off, removes both and continues.
func TestHalfATake(t *testing.T) {
	d := openDir(t)
	l := create(t, d, "p-1", newMachine("a"))
	before := files(t, d)
	put(t, d, "p-1", ".2.lock")
	must(t, l.Created(newMachine("a")))
	wantFiles(t, d, before...)
	f, err := os.OpenFile(d.file("p-1", ".ledger"), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString(`01234567 0 {"is":"tak`)
	must(t, errors.Join(err, f.Close()))
	must(t, l.Intend(newMachine("b")))
	s := read(t, d, "p-1")
	wants(t, s, "a created", "b intended")
	if s.Torn || s.Damage != nil {
		t.Errorf("got %+v", s)
	}
}

// Only the key's file contains any of the key.
func TestNoSecret(t *testing.T) {
	d := openDir(t)
	l := create(t, d, "p-1", newMachine("a"))
	must(t, errors.Join(l.Created(newMachine("a")), l.Leased(newMachine("a")), l.Renew(), l.Ending("a"), l.Gone("", "a"), l.Closing(), l.Close(false)))
	body := bytes.Split(newKey, []byte("\n"))[1]
	if len(body) < 32 {
		t.Fatalf("the key is %q", newKey)
	}
	have := 0
	for _, name := range files(t, d) {
		b, err := os.ReadFile(filepath.Join(d.path, name))
		must(t, err)
		if bytes.Contains(b, body) != (name == "p-1.key") {
			t.Errorf("%s holds %q", name, b)
		}
		if strings.HasSuffix(name, ".ledger") {
			have = len(b)
		}
	}
	if have < 100 {
		t.Errorf("a ledger of %d bytes", have)
	}
}
