package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
)

// A pool of a killed program ends with -yes, or a yes, and not without.
func TestEndPool(t *testing.T) {
	p := newPlace(t)
	id := dead(t, p, "lost", nil)
	at := []string{"-state", p.state, "-provider", p.provider()}
	line := append([]string{"end", "pool", "lost"}, at...)
	pools(t, "-state", p.state).wants(t, 0, id+` +local +abandoned +1 `, `the program of 1 pool is dead: "pools end left"`)
	pools(t, line...).wants(t, 0, id+` +local +abandoned`, "^nothing was ended: -yes ends it\n$")
	v := decode[endView](t, pools(t, append(line, "-json")...))
	if !v.DryRun || len(v.Pools) != 1 || v.Pools[0].ID != id || len(v.Ended) != 0 {
		t.Errorf("%+v", v)
	}
	answered(t, "no\n", line...).wants(t, 0, id, `End pool `+id+`\? \[y/N\] nothing was ended`)
	pools(t, append(line, "-yes")...).wants(t, 0, `ended local machine \S+ of pool `+id+`\n(.*\n)*\d+ resources? ended\n$`, "^$")
	pools(t, "list", "-state", p.state, p.provider()).wants(t, 0, "^no pools on this computer\n\nthe accounts hold nothing", "^$")
}

// Of two dead pools the one that is named ends, and the other does not.
func TestEndOneOfTwo(t *testing.T) {
	p := newPlace(t)
	first, second := dead(t, p, "first", nil), dead(t, p, "second", nil)
	at := []string{"-state", p.state, "-provider", p.provider()}
	answered(t, "y\n", append([]string{"end", "pool", "first"}, at...)...).wants(t, 0, `ended local machine \S+ of pool `+first, `\[y/N\]`)
	pools(t, "-state", p.state).wants(t, 0, second+` +local +abandoned +1 `, "1 pool is dead")
	if s := pools(t, "-state", p.state); strings.Contains(s.out, first) {
		t.Errorf("it is still there:\n%s", s.out)
	}
	v := decode[endView](t, pools(t, append([]string{"end", "pool", "second", "-yes", "-json"}, at...)...))
	if v.DryRun || len(v.Ended) == 0 || v.Ended[0].Pool != second {
		t.Errorf("%+v", v)
	}
}

func TestEndLeft(t *testing.T) {
	p := newPlace(t)
	id := dead(t, p, "lost", nil)
	living := open(t, p, 1, gputrain.WithName("living"))
	line := []string{"end", "left", p.provider(), "-state", p.state}
	pools(t, line...).wants(t, 0, id, "nothing was ended")
	v := decode[endView](t, pools(t, append(line, "-json")...))
	if !v.DryRun || len(v.Pools) != 1 || v.Pools[0].ID != id {
		t.Errorf("%+v", v)
	}
	pools(t, append(line, "-yes")...).wants(t, 0, "of pool "+id, "^$")
	if r, err := living.Run(gputrain.Cmd("echo", "here")); err != nil || string(r.Stdout) != "here\n" {
		t.Errorf("%s, %v", r.Stdout, err)
	}
}

// What a ledger elsewhere knows is listed as another computer's, and not ended while its program may live.
func TestEndLeftOfOthers(t *testing.T) {
	p := newPlace(t)
	pool := open(t, p, 1)
	other := t.TempDir()
	pools(t, "end", "left", p.provider(), "-state", other).wants(t, 0, "Of other computers' pools.*\n.*\n"+pool.ID(), "nothing was ended")
	pools(t, "end", "left", p.provider(), "-state", other, "-yes").wants(t, 0, "^0 resources ended", "^$")
}

// -takeover ends a living program's pool, and that program notices.
func TestEndTakenOver(t *testing.T) {
	p := newPlace(t)
	pool := open(t, p, 1, gputrain.WithName("hangs"))
	pools(t, "end", "pool", "hangs", "-takeover", "-yes", "-state", p.state, "-provider", p.provider()).wants(t, 0, `ended local machine \S+ of pool `+pool.ID(), "^$")
	pools(t, "-state", p.state).wants(t, 0, "^no pools", "^$")
}

// The pool of a damaged ledger is shown, with what is wrong, and ends if the ledger still names its provider.
func TestDamagedLedger(t *testing.T) {
	p := newPlace(t)
	id := dead(t, p, "lost", nil)
	ledgers, _ := filepath.Glob(filepath.Join(p.state, "pools", "*.ledger"))
	if len(ledgers) != 1 {
		t.Fatal(ledgers)
	}
	text, err := os.ReadFile(ledgers[0])
	if err != nil {
		t.Fatal(err)
	}
	write := func(text []byte) {
		if err := os.WriteFile(ledgers[0], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text[:20])
	pools(t, "-state", p.state).wants(t, 0, id, "is dead")
	pools(t, "end", "pool", id, "-state", p.state, "-yes").wants(t, 1, "^$", `does not name its provider; "pools list PROVIDER"`)
	damaged := bytes.Clone(text)
	damaged[len(text)/2] ^= 1
	write(damaged)
	pools(t, "-state", p.state).wants(t, 0, id, "pool "+id+": .*damaged")
	pools(t, "end", "pool", id, "-state", p.state, "-provider", p.provider(), "-yes").wants(t, 0, "ended local machine "+id+"-0 of pool "+id, "")
}
