package slurm

import (
	"os"
	"path/filepath"
	"testing"
)

// recordedText returns an answer in testdata.
func recordedText(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
