package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// made saves checkpoints, and copies each.
func made(t *testing.T, k *Keeper, n Node, names ...string) {
	t.Helper()
	for _, name := range names {
		tree{"m": name}.save(t, n, name)
		must(t, k.Last(t.Context(), []Node{n}, true))
	}
}

var huge = []string{"step-9223372036854775805", "step-9223372036854775806", "step-9223372036854775807"}

// What a node calls its checkpoints removes none of an earlier attempt, whoever of them was resumed from.
func TestNamesRemoveNothing(t *testing.T) {
	type attack func(t *testing.T, k *Keeper, n Node) *Keeper
	for name, tt := range map[string]struct {
		attack attack
		left   []string
	}{
		"huge numbers": {func(t *testing.T, k *Keeper, n Node) *Keeper {
			made(t, k, n, huge...)
			return k
		}, huge[1:]},
		"huge numbers, and a step that is reported": {func(t *testing.T, k *Keeper, n Node) *Keeper {
			k.Reported(200)
			made(t, k, n, huge...)
			k.Reported(201)
			made(t, k, n)
			return k
		}, huge[1:]},
		"in another program": {func(t *testing.T, k *Keeper, n Node) *Keeper {
			k, _ = newKeeper(t, k.cfg)
			made(t, k, n, huge...)
			return k
		}, huge[1:]},
		"over several attempts": {func(t *testing.T, k *Keeper, n Node) *Keeper {
			for i := range huge {
				made(t, k, n, huge[i])
				restore(t, k, huge[i], n)
			}
			return k
		}, huge},
		"left by an attempt, and found before the next": {func(t *testing.T, k *Keeper, n Node) *Keeper {
			k.Reported(300)
			for i := range huge {
				tree{"m": "x"}.save(t, n, huge[i])
				restore(t, k, huge[i], n)
			}
			return k
		}, huge},
		"found before the next, and then more": {func(t *testing.T, k *Keeper, n Node) *Keeper {
			tree{"m": "x"}.save(t, n, huge[0])
			restore(t, k, huge[0], n)
			made(t, k, n, huge[1:]...)
			return k
		}, huge},
		"found before the next, of the attempt that made those": {func(t *testing.T, k *Keeper, n Node) *Keeper {
			made(t, k, n, "step-300", "step-400")
			tree{"m": "x"}.save(t, n, huge[0])
			restore(t, k, huge[0], n)
			return k
		}, []string{"step-300", "step-400", huge[0]}},
		"beside those of several attempts": {func(t *testing.T, k *Keeper, n Node) *Keeper {
			for _, name := range []string{"step-300", "step-400"} {
				made(t, k, n, name)
				restore(t, k, name, n)
			}
			k.Reported(1 << 40)
			made(t, k, n, huge...)
			return k
		}, append([]string{"step-300", "step-400"}, huge[1:]...)},
		"steps of the attempt before": {func(t *testing.T, k *Keeper, n Node) *Keeper {
			k.Reported(1 << 40)
			restore(t, k, "step-200", n)
			made(t, k, n, "step-300", "step-400", "step-500")
			return k
		}, []string{"step-400", "step-500"}},
		"without steps": {func(t *testing.T, k *Keeper, n Node) *Keeper {
			k.Reported(1 << 40)
			restore(t, k, "step-200", n)
			for _, name := range []string{"x.pt", "y.pt"} {
				tree{"m": name}.save(t, n, name)
				must(t, k.Last(t.Context(), []Node{n}, true))
			}
			return k
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := fakeNode(t, 0)
			k, r := newKeeper(t, Config{Keep: 2})
			restore(t, k, "", n)
			made(t, k, n, "step-50", "step-100", "step-200")
			wantNames(t, k.cfg.To, "step-100", "step-200") // of one attempt, as many as are kept
			restore(t, k, "step-200", n)
			k = tt.attack(t, k, n)
			wantNames(t, k.cfg.To, append([]string{"step-100", "step-200"}, tt.left...)...)
			for _, name := range []string{"step-100", "step-200"} {
				tree{"m": name}.compare(t, filepath.Join(k.cfg.To, name))
			}
			if r.errs() != "" {
				t.Error(r.errs())
			}
		})
	}
}

// What a node calls its checkpoints stops none that come later, of the same attempt or another, by Watch or by Last: they are copied,
// kept, and resumed from.
func TestNamesStopNothing(t *testing.T) {
	for name, evil := range map[string][]string{
		"a huge number": huge[2:], "huge numbers": huge, "numbers that fall": {huge[2], huge[1], huge[0]}, "too huge a number": {"step-9223372036854775808"},
		"below zero": {"step--1"}, "zeros": {"step-00000000000000000000000009"}, "a name": {"zzz"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("the same attempt", func(t *testing.T) {
				n, _ := fakeNode(t, 0)
				k, r := newKeeper(t, Config{Keep: 2})
				restore(t, k, "", n)
				made(t, k, n, evil...)
				made(t, k, n, "step-300", "step-400", "step-500")
				wantNames(t, k.cfg.To, "step-400", "step-500")
				restore(t, k, "step-500", n)
				if r.errs() != "" {
					t.Error(r.errs())
				}
			})
			t.Run("another program", func(t *testing.T) {
				n, _ := fakeNode(t, 0)
				k, _ := newKeeper(t, Config{Keep: 2})
				restore(t, k, "", n)
				made(t, k, n, "step-200")
				made(t, k, n, evil...)
				k, _ = newKeeper(t, k.cfg)
				last, _ := k.store.newest()
				other, _ := fakeNode(t, 1)
				restore(t, k, last.Name, other)
				made(t, k, other, "step-300", "step-400")
				if _, step := k.Newest(); step != 400 {
					t.Errorf("%d is the newest", step)
				}
				restore(t, k, "step-400", other)
				made(t, k, other, "step-500")
				restore(t, k, "step-500", n)
			})
			t.Run("while it is watched", func(t *testing.T) {
				n, _ := fakeNode(t, 0)
				k, _ := newKeeper(t, Config{Keep: 2, Every: 5 * time.Millisecond})
				restore(t, k, "", n)
				stop := watch(t, k, nil, nil, n)
				for _, name := range append(slices.Clone(evil), "step-300", "step-400", "step-500") {
					tree{"m": name}.save(t, n, name)
					until(t, func() bool { last, _ := k.store.newest(); return last.Name == name })
				}
				stop()
				wantNames(t, k.cfg.To, "step-400", "step-500")
			})
		})
	}
}

// What the user puts here counts as newer than what has lower steps, whatever else a node has called its own.
func TestPutHere(t *testing.T) {
	n, _ := fakeNode(t, 0)
	k, _ := newKeeper(t, Config{Keep: 2})
	restore(t, k, "", n)
	made(t, k, n, huge[2], "step-300")
	tree{"m": "x"}.make(t, k.store.path("step-500"))
	restore(t, k, "step-500", n)
	made(t, k, n, "step-600")
	restore(t, k, "step-600", n)
	tree{"m": "x"}.make(t, k.store.path("step-50"))
	restore(t, k, "step-600", n)
}

// Of what has appeared at once the greatest step is copied, and then nothing that was there before it.
func TestOnlyTheNewestOfALook(t *testing.T) {
	n, _ := fakeNode(t, 0)
	k, r := newKeeper(t, Config{})
	restore(t, k, "", n)
	for _, name := range []string{"step-300", "step-500", "step-400"} {
		tree{"m": name}.save(t, n, name)
	}
	for range 3 {
		must(t, k.Last(t.Context(), []Node{n}, true))
	}
	wantNames(t, k.cfg.To, "step-500")
	if len(r.list()) != 1 {
		t.Errorf("%+v", r.list())
	}
}

// An attempt that reports its steps leaves as many as are kept.
func TestReportedStepsPrune(t *testing.T) {
	n, _ := fakeNode(t, 0)
	k, _ := newKeeper(t, Config{Keep: 2})
	restore(t, k, "", n)
	made(t, k, n, "step-100", "step-200")
	restore(t, k, "step-200", n)
	for i, want := range [][]string{{"step-200", "step-300"}, {"step-300", "step-400"}, {"step-400", "step-500"}} {
		step := int64(300 + 100*i)
		k.Reported(step)
		made(t, k, n, fmt.Sprintf("step-%d", step))
		wantNames(t, k.cfg.To, want...)
	}
}

// What an earlier attempt had under a name stays, under a hidden one. What the attempt itself had is replaced.
func TestNamesReplaceNothing(t *testing.T) {
	n, _ := fakeNode(t, 0)
	k, _ := newKeeper(t, Config{})
	save := func(text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(n.Dir, "latest.pt"), []byte(text), 0o600))
		must(t, k.Last(t.Context(), []Node{n}, true))
	}
	want := func(texts map[string]string) {
		t.Helper()
		entries, err := os.ReadDir(k.cfg.To)
		must(t, err)
		for _, e := range entries {
			if text, err := os.ReadFile(filepath.Join(k.cfg.To, e.Name())); !strings.HasSuffix(e.Name(), recordSuffix) && (err != nil || string(text) != texts[e.Name()]) {
				t.Errorf("%s has %q, %v", e.Name(), text, err)
			}
		}
		if len(entries) != len(texts)+1 {
			t.Errorf("%v", entries)
		}
	}
	restore(t, k, "", n)
	save("honest")
	save("honest, later")
	want(map[string]string{"latest.pt": "honest, later"})
	restore(t, k, "latest.pt", n)
	save("evil")
	save("more evil")
	want(map[string]string{"latest.pt": "more evil", ".earlier-latest.pt": "honest, later"})
	k, _ = newKeeper(t, k.cfg)
	save("worse")
	want(map[string]string{"latest.pt": "worse", ".earlier-latest.pt": "honest, later", ".earlier-latest.pt-2": "more evil"})
}

// A name that ends as hidden ones do is no reason to remove what was set aside.
func TestNamesLikeHiddenOnes(t *testing.T) {
	for _, suffix := range []string{goneSuffix, oldSuffix, beforeSuffix, partialSuffix, recordSuffix} {
		n, _ := fakeNode(t, 0)
		k, _ := newKeeper(t, Config{})
		restore(t, k, "", n)
		name := "x" + suffix
		made(t, k, n, name)
		must(t, k.SetAside(name))
		k, _ = newKeeper(t, k.cfg)
		made(t, k, n, "step-1")
		if b, err := os.ReadFile(filepath.Join(k.cfg.To, asidePrefix+name, "m")); err != nil || string(b) != name {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// What a program that died was about to replace is kept.
func TestReplacedStays(t *testing.T) {
	k, _ := newKeeper(t, Config{})
	tree{"m": "new"}.make(t, k.store.path("step-1"))
	tree{"m": "old"}.make(t, k.store.hidden("step-1", beforeSuffix))
	k, _ = newKeeper(t, k.cfg)
	tree{"m": "new"}.compare(t, k.store.path("step-1"))
	tree{"m": "old"}.compare(t, k.store.path(earlierPrefix+"step-1"))
}
