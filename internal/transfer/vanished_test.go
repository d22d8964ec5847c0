package transfer

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain/internal/ignore"
)

// changes are what an editor, a cache or another program does to a folder while it is sent: to d/late, which is large.
var changes = map[string]func(t *testing.T, dir string){
	"a file":                     func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "d/late"))) },
	"its folder":                 func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, "d"))) },
	"a file, for a folder":       func(t *testing.T, dir string) { become(t, dir, "d/late", tree{"d/late/in": "x"}) },
	"a file, for a link":         func(t *testing.T, dir string) { become(t, dir, "d/late", tree{"d/late": "-> ../a"}) },
	"its folder, for a file":     func(t *testing.T, dir string) { become(t, dir, "d", tree{"d": "x"}) },
	"its folder, for a dead end": func(t *testing.T, dir string) { become(t, dir, "d", tree{"d": "-> nowhere"}) },
}

func become(t *testing.T, dir, name string, other tree) {
	must(t, os.RemoveAll(filepath.Join(dir, name)))
	other.make(t, dir)
}

// large is a size that is not read ahead.
var large = strings.Repeat("0123456789abcdef", 3*aheadSize/16)

// whileSent calls do once something was sent.
func whileSent(do func()) Progress {
	var once sync.Once
	return func(done, _ int64) {
		if done > 0 {
			once.Do(do)
		}
	}
}

// TestWhatVanishesIsLeftOut: what vanishes from a folder while that is sent is left out and told, as rsync does with its
// code 24, and all else arrives.
func TestWhatVanishesIsLeftOut(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		for name, change := range changes {
			fresh := func() string {
				dir := t.TempDir()
				tree{"a": strings.Repeat(large, 20), "d/late": large, "z": "last"}.make(t, dir)
				for i := range 3 * filesAtOnce { // so that by SFTP it is not opened beside the first
					write(t, filepath.Join(dir, "b", strconv.Itoa(i)), "x")
				}
				return dir
			}
			check := func(how, at, told string, err error) {
				t.Helper()
				if err != nil || !strings.Contains(told, `late"`) || !strings.Contains(told, "left out") {
					t.Errorf("%s, %s: %v, told %q", name, how, err, told)
				}
				if text, err := os.ReadFile(filepath.Join(r.Dir, at, "z")); string(text) != "last" {
					t.Errorf("%s, %s: the file after it has not arrived: %v", name, how, err)
				}
				if exists(filepath.Join(r.Dir, at, "d/late")) {
					t.Errorf("%s, %s: it is there", name, how)
				}
				noneStaged(t, r)
				must(t, os.RemoveAll(filepath.Join(r.Dir, at)))
			}
			dir, told := fresh(), ""
			err := r.Upload(t.Context(), dir, "up", Options{Progress: whileSent(func() { change(t, dir) }), Vanished: func(what string) { told = what }})
			check("sent", "up", told, err)

			dir = fresh()
			stats, err := r.Sync(t.Context(), []Entry{{Local: dir, Remote: "sync"}}, whileSent(func() { change(t, dir) }))
			if exists(filepath.Join(r.Dir, "sync/d/late")) != (stats.Vanished == "") {
				t.Errorf("%s: told %q", name, stats.Vanished)
			}
			check("synced", "sync", stats.Vanished, err)
			again, err := r.Sync(t.Context(), []Entry{{Local: dir, Remote: "sync"}}, nil)
			if err != nil || again.Vanished != "" {
				t.Errorf("%s: the next Sync: %+v, %v", name, again, err)
			}
			must(t, os.RemoveAll(filepath.Join(r.Dir, "sync")))
		}
	})
}

// TestWhatVanishesBeforeItIsRead: a file is removed after its folder was listed, before it is hashed.
func TestWhatVanishesBeforeItIsRead(t *testing.T) {
	for name, change := range changes {
		dir := t.TempDir()
		tree{"a": "x", "d/late": large}.make(t, dir)
		var open roots
		defer open.close()
		gone := new(vanished)
		items, err := list(Entry{Local: dir}, &open, gone)
		must(t, err)
		change(t, dir)
		items, err = sumItems(t.Context(), items, gone)
		if err != nil || gone.String() == "" {
			t.Errorf("%s: %v, told %q", name, err, gone)
		}
		for _, it := range items {
			if it.name == "d/late" {
				t.Errorf("%s: it is still listed", name)
			}
		}
	}
}

// TestWalkOfWhatVanishes: a folder, or its .gitignore, is removed between its own listing and that of its content.
func TestWalkOfWhatVanishes(t *testing.T) {
	for name, change := range changes {
		dir := t.TempDir()
		tree{"a": "x", "d/late": "x"}.make(t, dir)
		root, err := os.OpenRoot(dir)
		must(t, err)
		defer root.Close()
		gone := new(vanished)
		s := &scanner{root: root, dir: dir, gone: gone}
		must(t, ignore.Walk(dir, ignore.New(nil), func(at string, d os.DirEntry) error {
			if at == "d" || at == "d/late" && strings.HasPrefix(name, "a file") {
				change(t, dir)
			}
			return s.visit(at, d)
		}))
		for _, it := range s.items {
			if it.name == "d/late" && !strings.HasSuffix(name, "for a link") && !strings.HasSuffix(name, "for a folder") {
				t.Errorf("%s: %+v", name, it)
			}
		}
	}
}

// TestSyncOfWhatIsWritten: a log that grows while it is sent arrives as it was listed, and a file that is saved once is
// sent as it is then. One that never rests is an error.
func TestSyncOfWhatIsWritten(t *testing.T) {
	r := node(t)
	for name, change := range map[string]struct {
		do   func(old string) string
		want []string
	}{
		"grows":       {func(old string) string { return old + "more" }, []string{large, large + "more"}},
		"is replaced": {func(old string) string { return strings.ToUpper(old) }, []string{strings.ToUpper(large)}},
		"shrinks":     {func(old string) string { return old[:100] }, []string{large[:100]}},
	} {
		dir := t.TempDir()
		tree{"a": strings.Repeat(large, 20), "late": large}.make(t, dir)
		_, err := r.Sync(t.Context(), []Entry{{Local: dir, Remote: name}}, whileSent(func() { write(t, filepath.Join(dir, "late"), change.do(large)) }))
		got, _ := os.ReadFile(filepath.Join(r.Dir, name, "late"))
		whole := false
		for _, want := range change.want {
			whole = whole || string(got) == want
		}
		if err != nil || !whole {
			t.Errorf("a file that %s: %v, %d bytes arrived", name, err, len(got))
		}
	}

	dir := t.TempDir()
	tree{"a": strings.Repeat(large, 20), "late": large}.make(t, dir)
	n := 0
	_, err := r.Sync(t.Context(), []Entry{{Local: dir, Remote: "restless"}}, func(int64, int64) {
		n++
		write(t, filepath.Join(dir, "late"), strings.Repeat(string(rune('a'+n%26)), len(large)))
	})
	if err == nil || !strings.Contains(err.Error(), "late") || !strings.Contains(err.Error(), "leave it out") {
		t.Errorf("a file that is always written: %v", err)
	}
}
