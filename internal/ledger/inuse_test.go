package ledger

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/owner"
)

// A reader that probes whether a lock is held does not keep an owner from it.
func TestHoldWaitsForReaders(t *testing.T) {
	d := openDir(t)
	must(t, create(t, d, "p-1").Close(false))
	put(t, d, "p-1", ".2.lock")
	looks, err := hold(d.generationLock("p-1", 2))
	must(t, err)
	go func() {
		time.Sleep(20 * time.Millisecond)
		looks.Close()
	}()
	l, err := hold(d.generationLock("p-1", 2))
	must(t, err)
	l.Close()
}

// If the line with which a living program took the pool is lost, its generation is not given again,
// and the program is fenced off.
func TestTakenLineLost(t *testing.T) {
	d := openDir(t)
	must(t, create(t, d, "p-1", newMachine("a")).Close(false))
	path := d.file("p-1", ".ledger")
	before, err := os.ReadFile(path)
	must(t, err)
	second, _ := take(t, d, "p-1", TakeOptions{})
	must(t, os.WriteFile(path, before, 0o600))
	if s := read(t, d, "p-1"); !s.InUse || s.Generation != 1 {
		t.Errorf("got %+v", s)
	}
	third, s := take(t, d, "p-1", TakeOptions{Force: true})
	if s.Generation != 3 || len(s.Damage) == 0 {
		t.Errorf("got %+v", s)
	}
	is(t, second.Intend(newMachine("b")), ErrFenced)
	must(t, third.Intend(newMachine("c")))
	wants(t, read(t, d, "p-1"), "a intended", "c intended")
}

// A damaged ledger may lack any generation, and its lock files may have gaps: a program that holds
// one of the locks still has the pool.
func TestLivingProgramOfADamagedLedger(t *testing.T) {
	d := openDir(t)
	l := create(t, d, "p-1", newMachine("a"))
	must(t, l.Created(newMachine("a")))
	must(t, l.Close(false))
	path := d.file("p-1", ".ledger")
	whole, err := os.ReadFile(path)
	must(t, err)
	life, err := hold(d.generationLock("p-1", 4))
	must(t, err)
	defer life.Close()
	if read(t, d, "p-1").InUse {
		t.Error("an undamaged ledger names every generation, but the fourth counts as one")
	}
	must(t, os.WriteFile(path, bytes.Replace(whole, []byte(`"at"`), []byte(`"AT"`), 1), 0o600))
	if s := read(t, d, "p-1"); !s.InUse || len(s.Damage) == 0 {
		t.Errorf("the fourth program lives, but the snapshot is %+v", s)
	}
	_, _, err = d.Take("p-1", "h/1/2", TakeOptions{Damaged: true})
	is(t, err, ErrInUse)
	life.Close()
	l, s := take(t, d, "p-1", TakeOptions{Damaged: true})
	if s.Generation != 2 {
		t.Errorf("generation %d", s.Generation)
	}
	must(t, l.Close(true))
	wantFiles(t, d)
}

// Closing a pool does not look for a lock file of a generation that the pool never had. Pools
// removes that file.
func TestLockOfNoGeneration(t *testing.T) {
	d := openDir(t)
	l := create(t, d, "p-1", newMachine("a"))
	put(t, d, "p-1", ".7.lock")
	must(t, l.Close(true))
	wantFiles(t, d, "p-1.7.lock")
	_, err := d.Pools()
	must(t, err)
	wantFiles(t, d)
}

// An owner on another host counts as alive for its lease, and an owner on this host only while its
// lock is held.
func TestInUse(t *testing.T) {
	here := owner.Self()
	here.PID++
	const there = "other.0badcafe/12/345"
	ago := func(d time.Duration) string { return time.Now().Add(-d).Format(time.RFC3339Nano) }
	begun := func(who string, lease time.Duration) string {
		return fmt.Sprintf(`{"is":"pool","at":%q,"pool":{"schema":1,"pool":"p-1","owner":%q,"leaseNanoseconds":%d}}`, ago(3*time.Hour), who, lease)
	}
	line := func(is string, ago string, more string) string {
		return fmt.Sprintf(`{"is":%q,"at":%q%s}`, is, ago, more)
	}
	for name, tt := range map[string]struct {
		lines []string
		want  bool
	}{
		"elsewhere, in its lease":      {[]string{begun(there, 4*time.Hour)}, true},
		"elsewhere, its lease is over": {[]string{begun(there, 2*time.Hour)}, false},
		"elsewhere, renewed":           {[]string{begun(there, 2*time.Hour), line("renewed", ago(time.Hour), "")}, true},
		"elsewhere, let go":            {[]string{begun(there, 4*time.Hour), line("released", ago(time.Hour), `,"generation":1`)}, false},
		"elsewhere, no lease":          {[]string{begun(there, 0)}, false},
		"here, no lock":                {[]string{begun(here.String(), 4*time.Hour)}, false},
		"here, then elsewhere":         {[]string{begun(here.String(), 4*time.Hour), line("taken", ago(time.Hour), `,"generation":2,"owner":"`+there+`"`)}, true},
		"elsewhere, then here":         {[]string{begun(there, 4*time.Hour), line("taken", ago(time.Hour), `,"generation":2,"owner":"`+here.String()+`"`)}, false},
		"nobody":                       {[]string{begun("?", 4*time.Hour)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := openDir(t)
			writeLedger(t, d, "p-1", tt.lines...)
			s := read(t, d, "p-1")
			if s.InUse != tt.want || s.Damage != nil {
				t.Fatalf("got %+v", s)
			}
			if tt.want {
				_, _, err := d.Take("p-1", here.String(), TakeOptions{})
				is(t, err, ErrInUse)
			}
			l, _ := take(t, d, "p-1", TakeOptions{Force: tt.want})
			must(t, l.Renew())
		})
	}
}

// A program that was killed while it started another one has left its locks to that, for a moment.
func TestTakeFromAnOrphan(t *testing.T) {
	d := openDir(t)
	dead := owner.Self()
	dead.Start = "1"
	writeLedger(t, d, "p-1", fmt.Sprintf(`{"is":"pool","at":%q,"pool":{"schema":1,"pool":"p-1","owner":%q}}`, time.Now().Format(time.RFC3339Nano), dead))
	life, err := hold(d.generationLock("p-1", 1))
	must(t, err)
	if !read(t, d, "p-1").InUse {
		t.Error("the lock is held")
	}
	_, _, err = d.Take("p-1", "h/1/2", TakeOptions{})
	is(t, err, ErrInUse)
	time.AfterFunc(50*time.Millisecond, func() { life.Close() })
	take(t, d, "p-1", TakeOptions{})
}

// A lock that cannot be probed counts as held.
func TestUntoldLock(t *testing.T) {
	d := openDir(t)
	must(t, create(t, d, "p-1").Close(false))
	must(t, os.Remove(d.generationLock("p-1", 1)))
	if read(t, d, "p-1").InUse {
		t.Error("a lock counts as held although there is none")
	}
	must(t, os.Mkdir(d.generationLock("p-1", 1), 0o700)) // cannot be opened for writing
	if !read(t, d, "p-1").InUse {
		t.Error("a lock that cannot be opened counts as free")
	}
}
