package transfer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sentAgain uploads and returns how many bytes of content were sent.
func sentAgain(t *testing.T, r *Remote, local, remote string) int64 {
	t.Helper()
	var sent int64
	must(t, r.Upload(t.Context(), local, remote, Options{Progress: func(n, _ int64) { sent = n }}))
	return sent
}

func age(t *testing.T, names ...string) {
	t.Helper()
	then := time.Now().Add(-time.Hour)
	for _, n := range names {
		must(t, os.Chtimes(n, then, then))
	}
}

// TestUploadSendsWhatDiffers changes one side or the other, and checks how many bytes are sent.
func TestUploadSendsWhatDiffers(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		local, at := t.TempDir(), filepath.Join(r.Dir, "up")
		odd.make(t, local)
		must(t, filepath.WalkDir(local, func(name string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				age(t, name)
			}
			return err
		}))
		all := int64(0)
		for _, text := range odd {
			if !strings.HasPrefix(text, "-> ") && text != "/" {
				all += int64(len(text))
			}
		}
		here, there := filepath.Join(local, "a"), filepath.Join(at, "a")
		for _, step := range []struct {
			name string
			do   func()
			want int64
		}{
			{"first", func() {}, all},
			{"again", func() {}, 0},
			{"size here", func() { write(t, here, "two2"); age(t, here) }, 4},
			{"settled", func() {}, 0},
			{"time here", func() {
				long := time.Now().Add(-2 * time.Hour)
				must(t, os.Chtimes(here, long, long))
			}, 4},
			{"mode here", func() { must(t, os.Chmod(here, 0o600)) }, 4},
			{"content there", func() { write(t, there, "spoi") }, 4},
			{"mode there", func() { must(t, os.Chmod(there, 0o640)) }, 4},
			{"setuid there", func() { must(t, os.Chmod(there, os.ModeSetuid|0o600)) }, 4},
			{"gone there", func() { must(t, os.Remove(there)) }, 4},
			{"a link there", func() {
				must(t, os.Remove(there))
				must(t, os.Symlink("b", there))
			}, 4},
			{"a folder gone there", func() { must(t, os.RemoveAll(filepath.Join(at, "with space"))) }, 3},
			{"written to just now", func() { write(t, here, "1234") }, 4},
			{"and so may have changed", func() { write(t, here, "5678") }, 4},
			{"all gone there", func() { must(t, os.RemoveAll(at)) }, all + 1},
		} {
			step.do()
			if got := sentAgain(t, r, local, "up"); got != step.want {
				t.Errorf("%s: %d bytes sent, want %d", step.name, got, step.want)
			}
			want := contents(t, local)
			want.compare(t, at)
		}
		noneStaged(t, r)
	})
}

func TestUploadKeepsTimes(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		then := time.Unix(1_000_000_000, 123)
		local := filepath.Join(t.TempDir(), "d")
		for name, size := range map[string]int{"small": 3, "big": bulkSize + 1} {
			write(t, filepath.Join(local, name), strings.Repeat("x", size))
			must(t, os.Chtimes(filepath.Join(local, name), then, then))
			must(t, r.Upload(t.Context(), filepath.Join(local, name), "single/"+name, Options{}))
		}
		must(t, r.Upload(t.Context(), local, "tree", Options{}))
		for _, name := range []string{"single/small", "single/big", "tree/small", "tree/big"} {
			if info, err := os.Stat(filepath.Join(r.Dir, name)); err != nil || info.ModTime().Unix() != then.Unix() {
				t.Errorf("%s is of %v, %v", name, info.ModTime(), err)
			}
		}
		if sent := sentAgain(t, r, filepath.Join(local, "big"), "single/big"); sent != 0 {
			t.Errorf("an unchanged large file was sent again: %d bytes", sent)
		}
		write(t, filepath.Join(r.Dir, "single/big"), "spoiled")
		if sent := sentAgain(t, r, filepath.Join(local, "big"), "single/big"); sent != bulkSize+1 {
			t.Errorf("%d bytes of a large file were sent", sent)
		}
	})
}

// TestUploadOfWhatChanges writes to a file during its upload, which then fails.
func TestUploadOfWhatChanges(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		for _, size := range []int64{4 << 20, 3 * bulkSize} {
			for _, change := range []struct {
				name string
				by   int64
				want string
			}{{"shrinks", -1 << 20, "became shorter"}, {"grows", +1 << 20, "became longer"}, {"stays as long", 0, "was written to"}} {
				for _, kind := range []string{"file", "tree"} {
					local := filepath.Join(t.TempDir(), "d", "f")
					write(t, local, "")
					must(t, os.Truncate(local, size))
					age(t, local)
					up := local
					if kind == "tree" {
						up = filepath.Dir(local)
					}
					changed := false
					err := r.Upload(t.Context(), up, "x/y", Options{Progress: func(int64, int64) {
						if !changed {
							changed = true
							must(t, os.Truncate(local, size+change.by))
							must(t, os.Chtimes(local, time.Time{}, time.Now().Add(-time.Minute)))
						}
					}})
					if err == nil || !strings.Contains(err.Error(), change.want) || !strings.Contains(err.Error(), local) {
						t.Errorf("a %s of %d bytes that %s: error %v", kind, size, change.name, err)
					}
					if exists(filepath.Join(r.Dir, "x/y")) && kind == "file" {
						t.Errorf("a file that %s was put in its place", change.name)
					}
					noneStaged(t, r)
					must(t, os.RemoveAll(filepath.Join(r.Dir, "x")))
				}
			}
		}
	})
}

// TestCompareReadsAnything reads invalid answers too: their files count as different, and are sent.
func TestCompareReadsAnything(t *testing.T) {
	items := []item{{name: "a", mode: 0o644, size: 1, mtime: time.Unix(5, 0)}, {name: "b\nc", mode: 0o644, size: 1, mtime: time.Unix(5, 9)}}
	for answer, want := range map[string][]bool{
		"": {false, false}, "//": {false, false}, "nonsense": {false, false}, "//81a4 1 5": {false, false},
		"//81a4 1 5 ./a\n":                      {true, false},
		"//81a4 1 5 ./b\nc\n":                   {false, true},
		"//81a4 1 5 ./a\n//81a4 1 5 ./b\nc\n":   {true, true},
		"//81a4 1 5 ./b\nc\n//81a4 1 5 ./a\n":   {false, true}, // out of order: the rest is sent
		"//81a4 2 5 ./a\n//81a4 1 6 ./b\nc\n":   {false, false},
		"//81ed 1 5 ./a\n//a1ff 1 5 ./b\nc\n":   {false, false},
		"//x 1 5 ./a\n//81a4 x 5 ./b\nc\n//// ": {false, false},
	} {
		same := make([]bool, len(items))
		must(t, compare(strings.NewReader(answer), items, same))
		if !slices.Equal(same, want) {
			t.Errorf("%q: %v, want %v", answer, same, want)
		}
	}
}
