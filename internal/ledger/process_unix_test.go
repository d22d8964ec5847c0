//go:build unix

package ledger

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pool is in use as long as its program is alive, however that ends.
func TestKilled(t *testing.T) {
	d := openDir(t)
	p := start(t, filepath.Dir(d.path))
	p.tell("create p-1", "ok")
	p.tell("intend b", "ok")
	if s := read(t, d, "p-1"); !s.InUse {
		t.Errorf("got %+v", s)
	}
	_, _, err := d.Take("p-1", "h/1/2", TakeOptions{})
	is(t, err, ErrInUse)
	p.kill()
	if s := read(t, d, "p-1"); s.InUse || s.Generation != 1 {
		t.Errorf("got %+v", s)
	}
	l, s := take(t, d, "p-1", TakeOptions{})
	wants(t, s, "a intended", "b intended")
	if s.Generation != 2 || !read(t, d, "p-1").InUse {
		t.Errorf("got %+v", s)
	}
	must(t, l.Intend(newMachine("c")))
	q := start(t, filepath.Dir(d.path)) // sees the rows of this program
	q.tell("take p-1", ErrInUse.Error())
	q.tell("take p-1 force", "ok")
	is(t, l.Intend(newMachine("d")), ErrFenced)
	q.tell("close", "ok")
	wants(t, read(t, d, "p-1"), "a intended", "b intended", "c intended")
}

// A stopped program, as on a sleeping laptop, keeps its pool. If the pool is taken over
// nonetheless, the program learns that when it goes on.
func TestStopped(t *testing.T) {
	for _, ended := range []bool{false, true} {
		d := openDir(t)
		p := start(t, filepath.Dir(d.path))
		p.tell("create p-1", "ok")
		must(t, p.cmd.Process.Signal(syscall.SIGSTOP))
		if s := read(t, d, "p-1"); !s.InUse {
			t.Errorf("got %+v", s)
		}
		_, _, err := d.Take("p-1", "h/1/2", TakeOptions{})
		is(t, err, ErrInUse)
		l, s := take(t, d, "p-1", TakeOptions{Force: true})
		wants(t, s, "a intended")
		must(t, l.Created(newMachine("a")))
		if ended { // as by Reap
			must(t, l.Close(true))
			wantFiles(t, d)
		}
		before := files(t, d)
		must(t, p.cmd.Process.Signal(syscall.SIGCONT))
		p.tell("intend b", ErrFenced.Error())
		p.tell("fenced", ErrFenced.Error())
		p.tell("close remove", "ok")
		wantFiles(t, d, before...)
		if !ended {
			must(t, l.Fenced())
			wants(t, read(t, d, "p-1"), "a created")
		}
	}
}

// Whenever a program is killed, the ledger has exactly the rows that the program was told are on
// disk, in order, and at most one more.
func TestKilledAtAnyMoment(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 5
	}
	d := openDir(t)
	acknowledged := 0
	for round := range rounds {
		id := "p-" + strconv.Itoa(round)
		p := start(t, filepath.Dir(d.path))
		p.tell("create "+id, "ok")
		p.say("append")
		life := time.Duration(rand.IntN(30_000)) * time.Microsecond
		timer := time.AfterFunc(time.Hour, func() { p.cmd.Process.Kill() })
		late := acknowledged == 0 && round == rounds-1 // so that one writes on a slow computer too
		if !late {
			timer.Reset(life)
		}
		told := -1
		for {
			line := p.hear()
			if line == "" {
				break
			}
			n, err := strconv.Atoi(line)
			must(t, err)
			told = n
			if late && n == 0 {
				timer.Reset(life)
			}
		}
		timer.Stop()
		p.kill()
		acknowledged += told + 1
		l, s := take(t, d, id, TakeOptions{})
		if len(s.Rows)-1 < told+1 || len(s.Rows)-1 > told+2 || s.Damage != nil {
			t.Fatalf("%d rows of %d, %v", len(s.Rows)-1, told+1, s.Damage)
		}
		for i, r := range s.Rows[1:] {
			if r.Name != strconv.Itoa(i) || r.Kind != "machine" || r.State != Intended {
				t.Fatalf("row %d is %+v", i, r)
			}
		}
		must(t, l.Close(true))
	}
	wantFiles(t, d)
	if acknowledged == 0 {
		t.Error("no program wrote anything before it was killed")
	}
	t.Logf("%d rows by %d programs", acknowledged, rounds)
}

// A program that is killed while it creates and ends pools leaves complete ledgers, and nothing
// else once another program has listed the pools.
func TestKilledInCreateAndClose(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 5
	}
	d := openDir(t)
	orphans, ledgers := 0, 0
	for round := range rounds {
		p := start(t, filepath.Dir(d.path))
		p.tell("", "ok")
		p.say("churn")
		most := 15 * time.Millisecond
		if ledgers == 0 { // a slow disk needs more time
			most <<= round / 8
		}
		time.Sleep(rand.N(most))
		p.kill()
		if said := p.hear(); said != "" {
			t.Fatal(said)
		}
		left := len(files(t, d))
		ids, err := d.Pools()
		must(t, err)
		for _, name := range files(t, d) {
			if len(ids) != 1 || !strings.HasPrefix(name, ids[0]+".") {
				t.Fatalf("the files %q are left, and the pools %q", files(t, d), ids)
			}
		}
		if len(ids) == 0 && left > 0 {
			orphans++
		}
		for _, id := range ids {
			ledgers++
			l, s := take(t, d, id, TakeOptions{})
			if len(s.Rows) != 1 || s.Damage != nil || s.Torn {
				t.Fatalf("got %+v", s)
			}
			must(t, errors.Join(l.Created(newMachine("a")), l.Close(true)))
		}
		wantFiles(t, d)
	}
	if rounds == 60 && ledgers == 0 {
		t.Error("every program was killed too early")
	}
	t.Logf("%d ledgers and %d times files without one, of %d", ledgers, orphans, rounds)
}
