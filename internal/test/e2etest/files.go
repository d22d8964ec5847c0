package e2etest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// WriteText writes a file, and creates the folders above it.
func WriteText(t testing.TB, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
		t.Fatal(err)
	}
}

// ReadText returns the content of a file. The test fails if it cannot be read.
func ReadText(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// Tree lists the files below a folder, by paths relative to it.
func Tree(dir string) (files []string) {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path != dir {
			files = append(files, strings.TrimPrefix(path, dir+"/"))
		}
		return nil
	})
	return files
}

// Lines returns the number of lines in a file. Tests use it to count how often a task ran.
func Lines(path string) int {
	b, _ := os.ReadFile(path)
	return bytes.Count(b, []byte("\n"))
}

// Exists reports whether a file exists at a path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Write writes a file that only this user can read.
func Write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// WantEmpty fails the test if the folder contains anything.
func WantEmpty(t *testing.T, dir string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path != dir {
			t.Errorf("%s is left", path)
		}
		return nil
	})
}
