package output

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestResultsAreInTheStateDirectory(t *testing.T) {
	state := t.TempDir()
	folder := func() (string, error) { return state, nil }
	a, b := NewDir("p-1", "", folder), NewDir("p-1", "", folder)
	if a.path == b.path {
		t.Errorf("both are %s, which can be guessed", a.path)
	}
	if filepath.Dir(a.path) != filepath.Join(state, "results") || !strings.HasPrefix(filepath.Base(a.path), "p-1-") || !a.own {
		t.Errorf("%s, own: %v", a.path, a.own)
	}
	dir, err := a.Attempt("t1-a1")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Dir(a.path), a.path, dir} {
		if info, err := os.Lstat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	// Another program gets the same folder from the kept path.
	if again := NewDir("p-1", a.path, folder); again.path != a.path || !again.own {
		t.Errorf("%s, own: %v", again.path, again.own)
	}
	// If another user has made a folder of that name, it is not used.
	os.RemoveAll(a.path)
	if err := os.Symlink(t.TempDir(), a.path); err != nil {
		t.Skip(err)
	}
	if dir, err := a.Attempt("t2-a1"); err == nil {
		t.Errorf("results went through a link, to %s", dir)
	}
}

func TestResultsOfOlderVersions(t *testing.T) {
	old := filepath.Join(os.TempDir(), "gputrain-results-p-1")
	if got := KeptPath("p-1", old); got != "" {
		t.Errorf("goes on with %s, which every user can make", got)
	}
	for _, path := range []string{"", t.TempDir(), old + "-x"} {
		if got := KeptPath("p-1", path); got != path {
			t.Errorf("%s becomes %s", path, got)
		}
	}
}

// A program that runs again with the same folder finds what the first run left.
func TestResultsOfAnEarlierProgram(t *testing.T) {
	named, precious := t.TempDir(), filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(precious, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(text string) string {
		f, path, err := NewDir("p", named, noState).create("t1-a1", "stdout")
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString(text)
		f.Close()
		if got, err := os.ReadFile(path); string(got) != text || err != nil {
			t.Errorf("%s has %q, %v", path, got, err)
		}
		return path
	}
	write("a longer text")
	path := write("short")
	if path != filepath.Join(named, "t1-a1", "stdout") {
		t.Errorf("the file is %s", path)
	}
	os.Remove(path)
	if err := os.Symlink(precious, path); err != nil {
		t.Skip(err)
	}
	write("new")
	if got, err := os.ReadFile(precious); string(got) != "kept" || err != nil {
		t.Errorf("a link was followed: %q, %v", got, err)
	}
	d := NewDir("p", named, noState)
	d.Drop("t1-a1")
	if left, err := os.ReadDir(named); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

// One attempt's output is dropped while another attempt makes the folder. The program may change
// its working directory meanwhile.
func TestResultsDirStaysWhereItWas(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := NewDir("p", "results", noState)
	home, err := filepath.Abs("results")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var both sync.WaitGroup
	both.Go(func() { dir.Drop("t1-a1") })
	both.Go(func() {
		if got, err := dir.Attempt("t2-a1"); got != filepath.Join(home, "t2-a1") || err != nil {
			t.Errorf("the attempt's folder is %s, %v", got, err)
		}
	})
	both.Wait()
}

// noState is the state directory of tests that must not ask for it.
func noState() (string, error) { return "", errors.New("no state directory") }
