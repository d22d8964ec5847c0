package private

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestMakeDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	for range 2 { // it is made first, and exists then
		if err := MakeDir(path); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("made %v, %v", info, err)
	}
	for _, mode := range []fs.FileMode{0o720, 0o702, 0o777} {
		os.Chmod(path, mode)
		if err := MakeDir(path); err == nil || !strings.Contains(err.Error(), "others can write") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	os.Symlink(t.TempDir(), link)
	if err := MakeDir(link); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("a link: %v", err)
	}
	dangling := filepath.Join(t.TempDir(), "dangling")
	os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), dangling)
	if err := MakeDir(dangling); err == nil {
		t.Error("MakeDir accepts a link to nothing")
	}
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	if err := MakeDir(file); err == nil || !strings.Contains(err.Error(), "not a folder") {
		t.Errorf("a file: %v", err)
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	os.WriteFile(file, []byte("12345"), 0o600)
	if got, err := ReadFile(file, 5); string(got) != "12345" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := ReadFile(file, 4); got != nil || err == nil || !strings.Contains(err.Error(), "limit of 4 bytes") {
		t.Errorf("with a file that is too long: %q, %v", got, err)
	}
	if _, err := ReadFile(file+"x", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	link := filepath.Join(dir, "link")
	os.Symlink(file, link)
	for _, path := range []string{link, dir} {
		if got, err := ReadFile(path, 100); err == nil {
			t.Errorf("ReadFile(%s) returned %q instead of an error", path, got)
		}
	}
}

func TestCheckPathPassesOverWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "a", "b", "c")} {
		if err := CheckPath(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A file that another program replaces at that moment, by a rename, is opened, before or after.
func TestOpenOfWhatIsReplaced(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	write := func(to string) {
		if err := os.WriteFile(to, []byte("whole"), 0o600); err != nil {
			t.Error(err)
		}
	}
	write(name)
	ended := make(chan bool)
	var replacing sync.WaitGroup
	replacing.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
			}
			write(name + ".new")
			if err := os.Rename(name+".new", name); err != nil && runtime.GOOS != "windows" { // which does not replace an open file
				t.Error(err)
			}
		}
	})
	for range 3000 {
		text, err := ReadFile(name, 100)
		if err != nil || string(text) != "whole" {
			t.Errorf("%q, %v", text, err)
			break
		}
	}
	close(ended)
	replacing.Wait()
}
