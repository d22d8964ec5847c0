// Package unzip reads zips in tests.
package unzip

import (
	"archive/zip"
	"io/fs"
	"testing"
)

// Texts returns the files of a zip, by name.
func Texts(t testing.TB, file string) map[string]string {
	t.Helper()
	r, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	texts := map[string]string{}
	for _, f := range r.File {
		text, err := fs.ReadFile(r, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		texts[f.Name] = string(text)
	}
	return texts
}
