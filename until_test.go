package gputrain_test

import (
	"testing"
	"time"
)

// settles waits until something is so. It gives up after two minutes, which is
// no measure of anything but a test that would never end.
func settles(ok func() bool) bool {
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// until is settles for what the rest of a test needs.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !settles(ok) {
		t.Fatalf("never came: %s", what)
	}
}
