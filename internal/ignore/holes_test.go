package ignore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain/internal/bounded"
)

// A .gitignore of holes, in a folder that a stranger has made, is not read to its end.
func TestRulesOfHoles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ".gitignore")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 64<<20); err != nil {
		t.Fatal(err)
	}
	err := Walk(dir, nil, func(string, fs.DirEntry) error { return nil })
	if !errors.Is(err, bounded.ErrTooLong) {
		t.Errorf("%v", err)
	}
}
