//go:build unix && !linux

package gputrain_test

import (
	"os"
	"testing"
)

// readOnly makes a folder one that its owner cannot write to.
func readOnly(t testing.TB, dir string) {
	t.Helper()
	if os.Getuid() == 0 {
		t.Skip("root writes everywhere")
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700) })
}
