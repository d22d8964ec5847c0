package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A checkpoint that appears comes whole, with names of every kind, empty files and folders, and links that stay in it. It is
// put back on another node, where nothing was.
func TestCopyAndRestore(t *testing.T) {
	kept := tree{"model.pt": "weights", "a b/it's\t": "x", "empty": "", "nothing": "/", "latest": "-> model.pt", "-dash": "d", "tar\\": "b"}
	delete(kept, "a b/it's\t")
	kept["a b/it's $(x)"] = "x"
	written := tree{"out": "-> /etc/passwd", "up": "-> ../../x"}
	for name, text := range kept {
		written[name] = text
	}
	nodes, _ := realNodes(t, 2)
	k, r := newKeeper(t, Config{})
	restore(t, k, "", nodes[0])
	var steps []int64
	stop := watch(t, k, nil, func(n int64) { steps = append(steps, n) }, nodes[0])
	written.save(t, nodes[0], "step-120")
	until(t, func() bool { path, step := k.Newest(); return path != "" && step == 120 })
	stop()
	kept.compare(t, filepath.Join(k.cfg.To, "step-120"))
	if got := r.list(); len(got) != 1 || got[0].Name != "step-120" || got[0].Step != 120 || got[0].Path != filepath.Join(k.cfg.To, "step-120") || got[0].Err != nil {
		t.Errorf("reported: %+v", got)
	}
	if !slices.Equal(steps, []int64{120}) {
		t.Errorf("steps: %v", steps)
	}
	restore(t, k, "step-120", nodes[1])
	kept.compare(t, filepath.Join(nodes[1].Dir, "step-120"))
	restore(t, k, "step-120", nodes[1]) // nothing changes
	kept.compare(t, filepath.Join(nodes[1].Dir, "step-120"))
	wantNames(t, nodes[1].Dir, "step-120")
	stop = watch(t, k, nil, nil, nodes[1])
	written.save(t, nodes[1], "step-130")
	until(t, func() bool { _, step := k.Newest(); return step == 130 })
	stop()
	if got := r.list(); len(got) != 2 {
		t.Errorf("what was put back is copied again: %+v", got)
	}
}

// A name that cannot be one here is an error that names it, and no other checkpoint suffers.
func TestNameWithNewline(t *testing.T) {
	nodes, _ := realNodes(t, 1)
	k, r := newKeeper(t, Config{})
	restore(t, k, "", nodes...)
	tree{"a\nb": "x"}.save(t, nodes[0], "step-1")
	if err := k.Last(t.Context(), nodes, true); err == nil || !strings.Contains(err.Error(), `a\nb`) || !strings.Contains(r.errs(), "step-1 could not be copied") {
		t.Errorf("%v, %s", err, r.errs())
	}
	tree{"ok": "x"}.save(t, nodes[0], "step-2")
	must(t, os.WriteFile(filepath.Join(nodes[0].Dir, "odd\n@ name"), nil, 0o600))
	must(t, k.Last(t.Context(), nodes, false))
	wantNames(t, k.cfg.To, "step-2")
}

// Many files come, and those that are on the node are not sent again.
func TestManyFiles(t *testing.T) {
	count := 10000
	if testing.Short() {
		count = partFiles + 200
	}
	all := tree{}
	for i := range count {
		all[fmt.Sprintf("layer-%d/part %d", i%10, i)] = fmt.Sprint(i)
	}
	nodes, _ := realNodes(t, 2)
	k, _ := newKeeper(t, Config{})
	restore(t, k, "", nodes[0])
	all.save(t, nodes[0], "step-1")
	must(t, k.Last(t.Context(), nodes[:1], true))
	all.compare(t, filepath.Join(k.cfg.To, "step-1"))
	restore(t, k, "step-1", nodes[1])
	all.compare(t, filepath.Join(nodes[1].Dir, "step-1"))
}

// Only what a node lacks is sent to it, and what it has more of than it should is moved aside.
func TestRestoreSendsWhatIsMissing(t *testing.T) {
	a, _ := fakeNode(t, 0)
	b, files := fakeNode(t, 1)
	k, _ := newKeeper(t, Config{})
	restore(t, k, "", a, b)
	tree{"rank0": "0"}.save(t, a, "step-7")
	tree{"rank1": "1"}.save(t, b, "step-7")
	must(t, k.Last(t.Context(), []Node{a, b}, true))
	whole := tree{"rank0": "0", "rank1": "1"}
	whole.compare(t, filepath.Join(k.cfg.To, "step-7"))
	restore(t, k, "step-7", a, b)
	whole.compare(t, filepath.Join(a.Dir, "step-7"))
	whole.compare(t, filepath.Join(b.Dir, "step-7"))
	if !slices.Equal(files.sent, []string{"rank0"}) {
		t.Errorf("sent to node 1: %q", files.sent)
	}
	must(t, os.WriteFile(filepath.Join(b.Dir, "step-7", "rank1"), []byte("other"), 0o600))
	restore(t, k, "step-7", a, b)
	whole.compare(t, filepath.Join(b.Dir, "step-7"))
	tree{"rank0": "0", "rank1": "other"}.compare(t, filepath.Join(b.Dir, ".aside-step-7"))
}

// What a node refuses is told as that node's.
func TestRestoreTellsTheNode(t *testing.T) {
	a, _ := fakeNode(t, 0)
	b, files := fakeNode(t, 1)
	k, _ := newKeeper(t, Config{})
	restore(t, k, "", a, b)
	tree{"rank0": "0"}.save(t, a, "step-7")
	must(t, k.Last(t.Context(), []Node{a, b}, true))
	for _, op := range []string{"script", "contents"} {
		files.set(func(now string) error {
			if now == op {
				return errors.New("it is full")
			}
			return nil
		})
		_, _, err := k.Restore(t.Context(), []Node{a, b})
		if on, ok := errors.AsType[*NodeError](err); !ok || on.Node != 1 || !strings.Contains(err.Error(), "it is full") {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// The first node makes a checkpoint of a gang whole. Parts without it are moved aside, and not resumed from.
func TestGang(t *testing.T) {
	a, _ := fakeNode(t, 0)
	b, _ := fakeNode(t, 1)
	k, _ := newKeeper(t, Config{})
	restore(t, k, "", a, b)
	tree{"b": "1"}.save(t, b, "step-1")
	must(t, k.Last(t.Context(), []Node{a, b}, true))
	wantNames(t, k.cfg.To)
	tree{"a": "1"}.save(t, a, "step-1")
	tree{"b": "2"}.save(t, b, "step-2")
	must(t, k.Last(t.Context(), []Node{a, b}, true))
	wantNames(t, k.cfg.To, "step-1")
	restore(t, k, "step-1", a, b)
	wantNames(t, b.Dir, "step-1")
	tree{"b": "2"}.compare(t, filepath.Join(b.Dir, ".aside-step-2"))
}

// Two nodes with different content under one name are an error that names them. The checkpoint is not kept.
func TestConflict(t *testing.T) {
	for name, other := range map[string]string{"content": "y", "size": "yy"} {
		t.Run(name, func(t *testing.T) {
			nodes, _ := realNodes(t, 2)
			k, r := newKeeper(t, Config{})
			restore(t, k, "", nodes...)
			tree{"same": "s", "opt.pt": "x"}.save(t, nodes[0], "step-1")
			tree{"same": "s", "opt.pt": other}.save(t, nodes[1], "step-1")
			err := k.Last(t.Context(), nodes, true)
			for _, part := range []string{"node 0", "node 1", "step-1/opt.pt"} {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not name %s", err, part)
				}
			}
			must(t, k.Last(t.Context(), nodes, true)) // it is not tried again
			if len(r.list()) != 1 {
				t.Errorf("%+v", r.list())
			}
			restore(t, k, "", nodes...)
			wantNames(t, nodes[1].Dir)
		})
	}
}

// As many are kept here and on the node as Keep says, of those that were copied. What another program has written stays.
func TestKeep(t *testing.T) {
	n, _ := fakeNode(t, 0)
	k, r := newKeeper(t, Config{Keep: 2})
	must(t, os.MkdirAll(filepath.Join(k.cfg.To, "notes"), 0o755))
	tree{"m": "1"}.make(t, filepath.Join(k.cfg.To, "step-1")) // put there by the user
	restore(t, k, "step-1", n)
	stop := watch(t, k, nil, nil, n)
	for i := int64(2); i <= 6; i++ {
		tree{"m": fmt.Sprint(i)}.save(t, n, fmt.Sprintf("step-%d", i))
		until(t, func() bool { _, step := k.Newest(); return step == i && len(names(t, k.cfg.To)) <= 4 })
	}
	until(t, func() bool { return len(names(t, n.Dir)) <= 2 })
	stop()
	wantNames(t, k.cfg.To, "notes", "step-1", "step-5", "step-6")
	wantNames(t, n.Dir, "step-5", "step-6")
	if r.errs() != "" {
		t.Error(r.errs())
	}
}

// What was not copied is never removed from a node.
func TestNotCopiedIsNotRemoved(t *testing.T) {
	n, files := fakeNode(t, 0)
	k, r := newKeeper(t, Config{Keep: 1})
	restore(t, k, "", n)
	files.set(func(op string) error {
		if op == "fetch step-1/m" || op == "fetch step-2/m" {
			return syscall.ENOSPC
		}
		return nil
	})
	for _, name := range []string{"step-1", "step-2"} {
		tree{"m": "x"}.save(t, n, name)
		if err := k.Last(t.Context(), []Node{n}, true); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v", err)
		}
	}
	if len(r.list()) != 2 { // one for each, however often it is tried
		t.Errorf("%+v", r.list())
	}
	for _, name := range []string{"step-3", "step-4"} {
		tree{"m": "x"}.save(t, n, name)
		must(t, k.Last(t.Context(), []Node{n}, true))
	}
	wantNames(t, n.Dir, "step-1", "step-2", "step-4")
	wantNames(t, k.cfg.To, "step-4")
}

// A newer one replaces those that wait, and one is copied at a time.
func TestNewerReplaces(t *testing.T) {
	n, files := fakeNode(t, 0)
	k, r := newKeeper(t, Config{Keep: 5})
	restore(t, k, "", n)
	hold := make(chan struct{})
	var running, looks atomic.Int32
	files.set(func(op string) error {
		if op == "script" {
			looks.Add(1)
		}
		if strings.HasPrefix(op, "fetch") {
			if running.Add(1) > 1 {
				t.Error("two are copied at once")
			}
			<-hold
			before := looks.Load()
			for end := time.Now().Add(5 * time.Second); looks.Load() < before+2 && time.Now().Before(end); { // they queue no older one
				time.Sleep(time.Millisecond)
			}
			running.Add(-1)
		}
		return nil
	})
	var seen sync.Map
	stop := watch(t, k, nil, func(n int64) { seen.Store(n, true) }, n)
	for i := int64(1); i <= 4; i++ {
		tree{"m": "x"}.save(t, n, fmt.Sprintf("step-%d", i))
		until(t, func() bool { _, ok := seen.Load(i); return ok }) // while step-1 is copied
		if i == 1 {
			until(t, func() bool { return running.Load() == 1 })
		}
	}
	before := looks.Load()
	until(t, func() bool { return looks.Load() > before+1 }) // the look that saw step-4 has queued it
	close(hold)
	until(t, func() bool { _, step := k.Newest(); return step == 4 })
	stop()
	wantNames(t, k.cfg.To, "step-1", "step-4")
	if len(r.list()) != 2 {
		t.Errorf("%+v", r.list())
	}
}

// Other entries count once they are unchanged for two looks, and again when they have changed.
func TestOtherEntries(t *testing.T) {
	n, _ := fakeNode(t, 0)
	k, _ := newKeeper(t, Config{})
	restore(t, k, "", n)
	at := filepath.Join(n.Dir, "last ckpt.pt")
	stop := watch(t, k, nil, nil, n)
	var text string
	for _, text = range []string{"one", "two!"} {
		must(t, os.WriteFile(at, []byte(text), 0o644))
		until(t, func() bool { b, _ := os.ReadFile(filepath.Join(k.cfg.To, "last ckpt.pt")); return string(b) == text })
	}
	stop()
	must(t, os.WriteFile(at, []byte("cut o"), 0o644))
	must(t, k.Last(t.Context(), []Node{n}, false)) // killed while it wrote
	b, err := os.ReadFile(filepath.Join(k.cfg.To, "last ckpt.pt"))
	if string(b) != text || err != nil {
		t.Errorf("here is %q, %v", b, err)
	}
	restore(t, k, "last ckpt.pt", n)
	if b, err := os.ReadFile(at); string(b) != text || err != nil {
		t.Errorf("on the node is %q, %v", b, err)
	}
	must(t, os.WriteFile(at, []byte("the end"), 0o644))
	must(t, k.Last(t.Context(), []Node{n}, true)) // nothing writes any more
	if b, err := os.ReadFile(filepath.Join(k.cfg.To, "last ckpt.pt")); string(b) != "the end" || err != nil {
		t.Errorf("here is %q, %v", b, err)
	}
}

// A checkpoint that is set aside is resumed from no more: the one before is.
func TestSetAside(t *testing.T) {
	n, _ := fakeNode(t, 0)
	k, _ := newKeeper(t, Config{})
	restore(t, k, "", n)
	for _, name := range []string{"step-1", "step-2"} {
		tree{"m": name}.save(t, n, name)
		must(t, k.Last(t.Context(), []Node{n}, true))
	}
	must(t, k.SetAside("step-2"))
	restore(t, k, "step-1", n)
	wantNames(t, n.Dir, "step-1")
	tree{"m": "better"}.save(t, n, "step-2")
	must(t, k.Last(t.Context(), []Node{n}, true))
	restore(t, k, "step-2", n)
	tree{"m": "better"}.compare(t, filepath.Join(k.cfg.To, "step-2"))
	tree{"m": "step-2"}.compare(t, filepath.Join(k.cfg.To, ".aside-step-2"))
}

// A checkpoint that the program removes while it is copied is no error.
func TestVanishes(t *testing.T) {
	n, files := fakeNode(t, 0)
	k, r := newKeeper(t, Config{})
	restore(t, k, "", n)
	tree{"a": "1", "b": "2"}.save(t, n, "step-1")
	files.set(func(op string) error {
		if op == "fetch step-1/b" {
			return os.RemoveAll(filepath.Join(n.Dir, "step-1"))
		}
		return nil
	})
	must(t, k.Last(t.Context(), []Node{n}, true))
	wantNames(t, k.cfg.To)
	files.set(func(op string) error { // half of it is left when it is listed
		if op == "fetch step-2/b" {
			return os.Remove(filepath.Join(n.Dir, "step-2", "a"))
		}
		return nil
	})
	tree{"a": "1", "b": "2"}.save(t, n, "step-2")
	must(t, k.Last(t.Context(), []Node{n}, true))
	wantNames(t, k.cfg.To)
	if r.errs() != "" {
		t.Error(r.errs())
	}
}

// A copy goes on, after an interruption, with what has come, also in another program.
func TestCopyGoesOn(t *testing.T) {
	n, files := fakeNode(t, 0)
	to := filepath.Join(t.TempDir(), "to")
	k, _ := newKeeper(t, Config{To: to})
	restore(t, k, "", n)
	tree{"a": "1", "b": "2"}.save(t, n, "step-1")
	ctx, cancel := context.WithCancel(t.Context())
	files.set(func(op string) error {
		if op == "fetch step-1/b" {
			cancel()
			return ctx.Err()
		}
		return nil
	})
	if err := k.Last(ctx, []Node{n}, true); err == nil {
		t.Error("no error")
	}
	var fetched []string
	files.set(func(op string) error {
		if strings.HasPrefix(op, "fetch") {
			fetched = append(fetched, op)
		}
		return nil
	})
	k, _ = newKeeper(t, Config{To: to})
	must(t, k.Last(t.Context(), []Node{n}, true))
	tree{"a": "1", "b": "2"}.compare(t, filepath.Join(to, "step-1"))
	if !slices.Equal(fetched, []string{"fetch step-1/b"}) {
		t.Errorf("%q", fetched)
	}
	if left, _ := filepath.Glob(filepath.Join(to, ".*partial")); left != nil {
		t.Errorf("%q is left", left)
	}
}

// A cut connection does not matter.
func TestCut(t *testing.T) {
	nodes, link := realNodes(t, 1)
	k, r := newKeeper(t, Config{})
	restore(t, k, "", nodes...)
	big := strings.Repeat("0123456789abcdef", 1<<18)
	stop := watch(t, k, nil, nil, nodes...)
	tree{"big": big, "more": big}.save(t, nodes[0], "step-1")
	for range 3 {
		time.Sleep(30 * time.Millisecond)
		link.Cut()
	}
	until(t, func() bool { _, step := k.Newest(); return step == 1 })
	stop()
	tree{"big": big, "more": big}.compare(t, filepath.Join(k.cfg.To, "step-1"))
	t.Log(r.errs())
}

// What grows below the folder is noticed, also under a hidden name.
func TestGrew(t *testing.T) {
	n, _ := fakeNode(t, 0)
	k, _ := newKeeper(t, Config{})
	restore(t, k, "", n)
	var looks, grew atomic.Int32
	n.Files.(*folders).set(func(op string) error { looks.Add(1); return nil })
	stop := watch(t, k, func() { grew.Add(1) }, nil, n)
	defer stop()
	until(t, func() bool { return looks.Load() > 5 })
	if grew.Load() != 0 {
		t.Error("nothing has grown")
	}
	must(t, os.WriteFile(filepath.Join(n.Dir, ".saving"), make([]byte, 100<<10), 0o600))
	until(t, func() bool { return grew.Load() == 1 })
}

// Too little room is said once.
func TestRoom(t *testing.T) {
	k, r := newKeeper(t, Config{Keep: 2})
	n := Node{Name: "node 0"}
	found := []seen{{name: "step-1", whole: true, size: 10 << 20}}
	k.last = []look{{free: 29 << 20}}
	k.measure([]Node{n}, found)
	k.measure([]Node{n}, found)
	if got := r.list(); len(got) != 1 || !strings.Contains(r.errs(), "node 0 has 29 MiB free") {
		t.Errorf("%s", r.errs())
	}
	k, r = newKeeper(t, Config{Keep: 2})
	k.last = []look{{free: 30 << 20}}
	k.measure([]Node{n}, found)
	if r.errs() != "" {
		t.Error(r.errs())
	}
}

// Shared storage is looked at, and nothing is copied from it or removed.
func TestShared(t *testing.T) {
	a, _ := fakeNode(t, 0)
	b, _ := fakeNode(t, 1)
	b.Dir = a.Dir
	k, _ := newKeeper(t, Config{Shared: true, Keep: 1, To: "/nowhere"})
	for i := 1; i <= 3; i++ {
		tree{"m": "x"}.save(t, a, fmt.Sprintf("step-%d", i))
	}
	restore(t, k, "step-3", a, b)
	must(t, k.SetAside("step-3"))
	restore(t, k, "step-2", a, b)
	stop := watch(t, k, nil, nil, a, b)
	time.Sleep(50 * time.Millisecond)
	stop()
	must(t, k.Last(t.Context(), []Node{a, b}, true))
	wantNames(t, a.Dir, "step-1", "step-2")
	if path, _ := k.Newest(); path != "" {
		t.Error(path)
	}
}

// What was in the folder before the task ran stays, until there is a checkpoint.
func TestForeignEntries(t *testing.T) {
	a, _ := fakeNode(t, 0)
	b, _ := fakeNode(t, 1)
	k, _ := newKeeper(t, Config{})
	tree{"README": "x", "step-1/m": "x"}.make(t, b.Dir)
	restore(t, k, "", a, b)
	restore(t, k, "", a, b)
	wantNames(t, b.Dir, "README", "step-1")
}

// On a single node a whole checkpoint that could not come before is resumed from.
func TestRestoreBringsFirst(t *testing.T) {
	n, _ := fakeNode(t, 0)
	k, _ := newKeeper(t, Config{})
	tree{"m": "x"}.save(t, n, "step-5")
	restore(t, k, "step-5", n)
	wantNames(t, k.cfg.To, "step-5")
}

// A notice is a file with the seconds that are left, and what is saved then comes at once.
func TestNotice(t *testing.T) {
	n, _ := fakeNode(t, 0)
	k, _ := newKeeper(t, Config{Every: time.Hour})
	restore(t, k, "", n)
	stop := watch(t, k, nil, nil, n)
	defer stop()
	must(t, k.Notice(t.Context(), []Node{n}, 90*time.Second))
	if b, err := os.ReadFile(n.Notice); string(b) != "90\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	tree{"m": "x"}.save(t, n, "step-5")
	until(t, func() bool { _, step := k.Newest(); return step == 5 })
	must(t, k.Spared(t.Context(), []Node{n}))
	if _, err := os.Stat(n.Notice); !os.IsNotExist(err) {
		t.Error(err)
	}
	must(t, k.Notice(t.Context(), []Node{n}, time.Second))
	stop()
	restore(t, k, "step-5", n)
	if _, err := os.Stat(n.Notice); !os.IsNotExist(err) {
		t.Error("the next attempt finds the notice of the one before")
	}
}

// A program that dies at any moment leaves whole checkpoints only.
func TestRepair(t *testing.T) {
	dir := t.TempDir()
	s := store{dir}
	tree{".a.pt.old": "old", ".b.pt.old": "old", "b.pt": "new", ".step-1.gone/m": "x", ".step-2.partial/step-2/m": "half", ".step-3.json": "{}"}.make(t, dir)
	s.repair()
	tree{"a.pt": "old", "b.pt": "new", ".step-2.partial/step-2/m": "half", ".step-3.json": "{}"}.compare(t, dir)
	if whole := s.list(); len(whole) != 0 { // a.pt and b.pt have no record
		t.Errorf("%+v", whole)
	}
}

// Names of tasks become names of folders, one to one.
func TestFolder(t *testing.T) {
	long := strings.Repeat("x", 250)
	names := []string{"llm", "llm 7b", "llm/7b", "llm%2F7b", "..", ".", ".hidden", "a.b", "a.", "ä", "A", long, long + "y", strings.Repeat("/", 100)}
	folders := map[string]string{}
	for _, n := range names {
		f := Folder(n)
		if other, twice := folders[f]; twice {
			t.Errorf("%q and %q are both %q", n, other, f)
		}
		folders[f] = n
		if len(f) > mostFolder || strings.ContainsAny(f, "/ \\:") || strings.HasPrefix(f, ".") {
			t.Errorf("%q is %q", n, f)
		}
	}
	if Folder("llm-7b") != "llm-7b" {
		t.Error(Folder("llm-7b"))
	}
}

// A list that no node of ours sends is an error, and no panic.
func FuzzLook(f *testing.F) {
	f.Add("//@1 2\n//w 4 5 - step-1\n//f 1 2 3.4 a b\n")
	f.Fuzz(func(t *testing.T, said string) {
		l, err := parseLook(said)
		for _, s := range l.entries {
			if err != nil || s.name == "" || strings.Contains(s.name, "/") || s.name[0] == '.' {
				t.Errorf("%+v, %v", l, err)
			}
		}
	})
}
