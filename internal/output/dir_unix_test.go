//go:build unix

package output

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain/internal/test/strangertest"
)

// In a folder that the user has named and every user can write to, another user makes the attempts'
// folders first, or puts links in their places.
func TestStrangersResults(t *testing.T) {
	shared, mine := strangertest.Shared(t), t.TempDir()
	kept := filepath.Join(mine, "stdout")
	if err := os.WriteFile(kept, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	strangertest.Run(t, `cd "$1" && mkdir -m 777 t1-a1 && ln -s "$2/stdout" t1-a1/stdout && ln -s "$2" t2-a1 && mkdir -m 777 t3-a1 && echo x >t3-a1/x`, shared, mine)
	d := NewDir("p", shared, noState)
	for _, id := range []string{"t1-a1", "t2-a1"} {
		f, path, err := d.create(id, "stdout")
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString("a result")
		f.Close()
		if dir, err := d.Attempt(id); err != nil || dir != filepath.Dir(path) {
			t.Errorf("the folder is %s, and then %s, %v", filepath.Dir(path), dir, err)
		}
		if got, err := os.ReadFile(path); string(got) != "a result" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if open := strangertest.Opens(t, filepath.Dir(path)); len(open) > 0 || filepath.Dir(path) == filepath.Join(shared, id) {
			t.Errorf("the stranger opens %v in %s", open, path)
		}
		d.Drop(id)
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	d.Drop("t3-a1")
	if _, err := os.Lstat(filepath.Join(shared, "t3-a1", "x")); err != nil {
		t.Errorf("a stranger's folder was removed: %v", err)
	}
	if got, err := os.ReadFile(kept); string(got) != "kept" || err != nil {
		t.Errorf("a file of this user has %q, %v", got, err)
	}
}
