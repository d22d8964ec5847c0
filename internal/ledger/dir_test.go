package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/record"
)

func TestDefaultDir(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has another default folder")
	}
	t.Setenv("HOME", "/home/ann")
	for xdg, want := range map[string]string{"/state": "/state/gputrain", "relative": "/home/ann/.local/state/gputrain", "": "/home/ann/.local/state/gputrain"} {
		t.Setenv("XDG_STATE_HOME", xdg)
		if got, err := DefaultDir(); err != nil || got != want {
			t.Errorf("%q: %q, %v", xdg, got, err)
		}
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	if got, err := DefaultDir(); err == nil {
		t.Errorf("without HOME: %q", got)
	}
}

func TestOpenDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := OpenDir(path)
	must(t, err)
	l := create(t, d, "p-1", newMachine("a"))
	must(t, l.Close(false))
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	for _, p := range []string{filepath.Dir(path), path, d.path} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", p, info.Mode(), err)
		}
	}
	wantFiles(t, d, "p-1.1.lock", "p-1.key", "p-1.ledger", "p-1.lock")
	for _, name := range files(t, d) {
		if info, err := os.Stat(filepath.Join(d.path, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	for _, p := range []string{path, d.path} {
		must(t, os.Chmod(p, 0o770))
		if _, err := OpenDir(path); err == nil {
			t.Errorf("OpenDir accepts %s, which others can write to", p)
		}
		must(t, os.Chmod(p, 0o755))
		_, err := OpenDir(path)
		must(t, err)
		if os.Geteuid() == 0 {
			must(t, os.Chown(p, 12345, -1))
			if _, err := OpenDir(path); err == nil {
				t.Errorf("OpenDir accepts %s, which belongs to another user", p)
			}
			must(t, os.Chown(p, 0, -1))
		}
	}
}

func TestCreate(t *testing.T) {
	d := openDir(t)
	for _, bad := range []string{"", "-", "P", "a/b", "..", "a.b", "a\n"} {
		if _, err := d.Create(Header{Pool: bad}, newKey); err == nil {
			t.Errorf("Create accepts the ID %q", bad)
		}
		_, err := d.Read(bad)
		is(t, err, ErrUnknown)
		_, _, err = d.Take(bad, "h/1/2", TakeOptions{})
		is(t, err, ErrUnknown)
	}
	if _, err := d.Create(Header{Pool: "p-1"}, newKey, Row{Name: "no kind"}); err == nil {
		t.Error("Create accepts an invalid row")
	}
	wantFiles(t, d)
	l := create(t, d, "p-1", newMachine("a"))
	before := files(t, d)
	for range 2 { // while it is held, and when it is not
		_, err := d.Create(Header{Pool: "p-1"}, []byte("other"))
		is(t, err, ErrInUse)
		wantFiles(t, d, before...)
		must(t, l.Close(false))
	}
	if key, err := l.Key(); err != nil || !bytes.Equal(key, newKey) {
		t.Errorf("the key is %q, %v", key, err)
	}
	wants(t, read(t, d, "p-1"), "a intended")

	// A Create that cannot write leaves nothing.
	must(t, os.MkdirAll(filepath.Join(d.path, "q-1.ledger.new", "x"), 0o700))
	_, err := d.Create(Header{Pool: "q-1"}, newKey)
	if err == nil {
		t.Fatal("Create succeeded without being able to write")
	}
	must(t, os.RemoveAll(filepath.Join(d.path, "q-1.ledger.new")))
	wantFiles(t, d, before...)
}

// put writes files of a pool.
func put(t testing.TB, d *Dir, id string, suffixes ...string) {
	t.Helper()
	for _, s := range suffixes {
		must(t, os.WriteFile(d.file(id, s), []byte("x"), 0o600))
	}
}

// Pools removes what a program left that was killed in Create, or while it removed a pool. These
// files do not prevent Create.
func TestOrphans(t *testing.T) {
	for _, left := range [][]string{
		{".lock"},
		{".lock", ".1.lock"},
		{".lock", ".1.lock", ".key"},
		{".lock", ".1.lock", ".key", ".ledger.new"},
		{".lock", ".1.lock", ".2.lock", ".key", ".tasks", ".tasks.new"},
		{".lock", ".2.lock"},
		{".1.lock"},
		{".key"},
		{".tasks"},
	} {
		d := openDir(t)
		other := create(t, d, "p-10", newMachine("a"))
		before := files(t, d)
		put(t, d, "p-1", left...)
		ids, err := d.Pools()
		must(t, err)
		if !slices.Equal(ids, []string{"p-10"}) {
			t.Errorf("the pools are %q", ids)
		}
		wantFiles(t, d, before...)

		put(t, d, "p-1", left...)
		l := create(t, d, "p-1", newMachine("b"))
		must(t, l.Close(true))
		wantFiles(t, d, before...)
		must(t, other.Intend(newMachine("b")))
	}
}

func TestOrphansOfTheLiving(t *testing.T) {
	d := openDir(t)
	put(t, d, "p-1", ".key", ".1.lock")
	lock, err := d.lock("p-1", 0) // a program in Create
	must(t, err)
	_, err = d.Pools()
	must(t, err)
	wantFiles(t, d, "p-1.1.lock", "p-1.key", "p-1.lock")
	life, err := hold(d.generationLock("p-1", 1)) // a program whose ledger was removed
	must(t, err)
	lock.Unlock()
	for range 2 {
		_, err = d.Pools()
		must(t, err)
		wantFiles(t, d, "p-1.1.lock", "p-1.key")
		_, err = d.Create(Header{Pool: "p-1"}, newKey)
		is(t, err, ErrInUse)
		wantFiles(t, d, "p-1.1.lock", "p-1.key")
	}
	life.Close()
	_, err = d.Pools()
	must(t, err)
	wantFiles(t, d)
}

// A pool that was created after Pools has looked is not removed.
func TestSweepOfAPool(t *testing.T) {
	d := openDir(t)
	must(t, create(t, d, "p-1", newMachine("a")).Close(false))
	d.sweep("p-1")
	wants(t, read(t, d, "p-1"), "a intended")
}

// Files that belong to no pool stay, and are not listed as pools.
func TestOtherFiles(t *testing.T) {
	d := openDir(t)
	for _, name := range []string{"README", ".hidden", "A.ledger"} {
		must(t, os.WriteFile(filepath.Join(d.path, name), nil, 0o600))
	}
	ids, err := d.Pools()
	if err != nil || len(ids) != 0 {
		t.Errorf("got %q, %v", ids, err)
	}
	wantFiles(t, d, ".hidden", "A.ledger", "README")
}

// Programs that list, read, take, create and end pools do not disturb each other.
func TestManyAtOnce(t *testing.T) {
	d := openDir(t)
	shared := create(t, d, "shared", newMachine("a"))
	must(t, shared.Close(false))
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ids, err := d.Pools()
				for _, id := range ids {
					if _, rerr := d.Read(id); !errors.Is(rerr, ErrUnknown) {
						err = errors.Join(err, rerr)
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for g := range 3 {
		writers.Go(func() {
			for i := range 30 {
				l, err := d.Create(Header{Pool: fmt.Sprintf("p-%d-%d", g, i)}, newKey, newMachine("a"))
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(l.Created(newMachine("a")), l.Close(false)); err != nil {
					t.Error(err)
				}
				l, s, err := d.Take(l.id, "h/1/2", TakeOptions{})
				if err != nil {
					t.Error(err) // a reader that probes its lock does not hold the pool
					return
				}
				if len(s.Rows) != 1 {
					t.Errorf("%+v", s)
				}
				if err := l.Close(true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	_, err := d.Pools()
	must(t, err)
	wantFiles(t, d, "shared.1.lock", "shared.key", "shared.ledger", "shared.lock")
}

// If many programs take a pool at once, one gets it.
func TestTakesAtOnce(t *testing.T) {
	d := openDir(t)
	must(t, create(t, d, "p-1", newMachine("a")).Close(false))
	var all sync.WaitGroup
	won := make(chan *Ledger, 8)
	for range 8 {
		all.Go(func() {
			l, _, err := d.Take("p-1", "h/1/2", TakeOptions{})
			if err == nil {
				won <- l
			} else if !errors.Is(err, ErrInUse) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	close(won)
	if len(won) != 1 {
		t.Fatalf("%d programs have the pool", len(won))
	}
	l := <-won
	must(t, l.Fenced())
	must(t, l.Close(true))
}

// A pool that ends while another program waits for its lock is unknown to that program.
func TestTakeOfWhatIsRemoved(t *testing.T) {
	d := openDir(t)
	l := create(t, d, "p-1", newMachine("a"))
	lock, err := d.lock("p-1", 0)
	must(t, err)
	result := make(chan error)
	go func() { _, _, err := d.Take("p-1", "h/1/2", TakeOptions{Force: true}); result <- err }()
	time.Sleep(10 * time.Millisecond)
	must(t, d.remove("p-1", []int{1}))
	lock.Unlock()
	is(t, <-result, ErrUnknown)
	wantFiles(t, d)
	is(t, l.Intend(newMachine("b")), ErrChanged)
	wantFiles(t, d)
}

// A ledger that is cut anywhere in its last line has the state before that line.
func TestTorn(t *testing.T) {
	d := openDir(t)
	l := create(t, d, "p-1", newMachine("a"))
	kept := l.file.Size()
	must(t, l.Created(newMachine("a")))
	must(t, l.file.Close())
	l.life.Close()
	path := d.file("p-1", ".ledger")
	whole, err := os.ReadFile(path)
	must(t, err)
	for n := kept; n < int64(len(whole)); n++ {
		must(t, os.WriteFile(path, whole[:n], 0o600))
		s := read(t, d, "p-1")
		wants(t, s, "a intended")
		if s.Torn != (n > kept) || s.Damage != nil || s.InUse {
			t.Fatalf("cut to %d: %+v", n, s)
		}
		l, s := take(t, d, "p-1", TakeOptions{})
		wants(t, s, "a intended")
		if s.Torn || s.Generation != 2 {
			t.Fatalf("cut to %d: %+v", n, s)
		}
		must(t, l.Leased(newMachine("a")))
		must(t, l.Close(false))
		s = read(t, d, "p-1")
		wants(t, s, "a leased")
		if s.Torn || s.Damage != nil {
			t.Fatalf("cut to %d: %+v", n, s)
		}
	}
}

// A ledger that was edited can still be read, and a program that asks for damaged ones can take it.
func TestDamaged(t *testing.T) {
	d := openDir(t)
	l := create(t, d, "p-1", newMachine("a"), newMachine("b"))
	must(t, l.Created(newMachine("a"), newMachine("b")))
	must(t, l.Close(false))
	path := d.file("p-1", ".ledger")
	whole, err := os.ReadFile(path)
	must(t, err)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for i, want := range [][]string{
		{"a created", "b created"}, // the pool's own line
		{"b created", "a created"}, // a intended
		{"a created", "b created"},
		{"a intended", "b created"}, // a created
	} {
		edited := bytes.Replace(lines[i], []byte(`"at"`), []byte(`"AT"`), 1)
		must(t, os.WriteFile(path, bytes.Join(slices.Replace(slices.Clone(lines), i, i+1, edited), nil), 0o600))
		s := read(t, d, "p-1")
		wants(t, s, want...)
		if len(s.Damage) == 0 {
			t.Errorf("line %d: no damage", i+1)
		}
		_, s, err := d.Take("p-1", "h/1/2", TakeOptions{Force: true})
		is(t, err, ErrDamaged)
		wants(t, s, want...)
		l, s := take(t, d, "p-1", TakeOptions{Damaged: true})
		wants(t, s, want...)
		must(t, l.Gone("", "a", "b"))
		must(t, l.Close(false))
		wants(t, read(t, d, "p-1"), states(&Snapshot{Rows: []Row{{Name: s.Rows[0].Name, State: Gone}, {Name: s.Rows[1].Name, State: Gone}}})...)
		if read(t, d, "p-1").InUse {
			t.Error("the pool is still in use")
		}
	}
}

// writeLedger writes a ledger as another program would.
func writeLedger(t testing.TB, d *Dir, id string, heads ...string) {
	t.Helper()
	f, err := record.Create(d.file(id, ".ledger"))
	must(t, err)
	for _, h := range heads {
		must(t, f.Append(true, record.Record{Head: []byte(h)}))
	}
	must(t, f.Close())
}

func TestNewer(t *testing.T) {
	for name, head := range map[string]string{
		"same form":    `{"is":"pool","pool":{"schema":2,"pool":"p-1","provider":"x"}}`,
		"another form": `{"is":7,"pool":{"schema":3,"pool":"p-1","provider":"x","lease":{}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := openDir(t)
			writeLedger(t, d, "p-1", head, `{"is":"what is that"}`)
			before, _ := os.ReadFile(d.file("p-1", ".ledger"))
			s, err := d.Read("p-1")
			is(t, err, ErrNewer)
			if s == nil || !s.Newer || s.Pool != "p-1" || s.Provider != "x" || s.InUse {
				t.Fatalf("got %+v", s)
			}
			l, s, err := d.Take("p-1", "h/1/2", TakeOptions{Force: true, Damaged: true})
			is(t, err, ErrNewer)
			if l != nil || s == nil || s.Pool != "p-1" {
				t.Errorf("got %+v", s)
			}
			if after, _ := os.ReadFile(d.file("p-1", ".ledger")); !bytes.Equal(before, after) {
				t.Error("the newer ledger was changed")
			}
			wantFiles(t, d, "p-1.ledger", "p-1.lock")
			life, err := hold(d.generationLock("p-1", 1))
			must(t, err)
			defer life.Close()
			if s, _ := d.Read("p-1"); !s.InUse {
				t.Error("the newer ledger's program lives, but the pool does not count as in use")
			}
		})
	}
}

// Whatever a ledger contains, its readable rows can be taken, and stay.
func FuzzTake(f *testing.F) {
	d := openDir(f)
	l := create(f, d, "p-1", newMachine("a"))
	must(f, errors.Join(l.Created(newMachine("a")), l.Intend(newMachine("b")), l.Close(false)))
	whole, err := os.ReadFile(d.file("p-1", ".ledger"))
	must(f, err)
	f.Add(whole)
	f.Add(whole[:len(whole)-9])
	f.Add(whole[30:])
	f.Add(bytes.Replace(whole, []byte("machine"), []byte("nothing"), 2))
	f.Add([]byte{})
	f.Add([]byte("\n\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		must(t, os.WriteFile(d.file("p-1", ".ledger"), b, 0o600))
		before, err := d.Read("p-1")
		if errors.Is(err, ErrNewer) {
			return
		}
		must(t, err)
		if before.Generation > 1<<30 {
			return // no pool has so many programs
		}
		l, _, err := d.Take("p-1", "h/1/2", TakeOptions{Force: true, Damaged: true})
		must(t, err)
		must(t, errors.Join(l.Intend(newMachine("fuzz")), l.Close(false)))
		after, err := d.Read("p-1")
		must(t, err)
		for _, r := range before.Rows {
			if !slices.ContainsFunc(after.Rows, func(a Row) bool { return a.Name == r.Name && (a.State == r.State || r.Name == "fuzz") }) {
				t.Fatalf("%+v is lost: %+v", r, after.Rows)
			}
		}
		if !slices.ContainsFunc(after.Rows, func(a Row) bool { return a.Name == "fuzz" }) || after.Torn {
			t.Fatalf("got %+v", after)
		}
		os.Remove(d.generationLock("p-1", after.Generation))
	})
}
