package e2etest

import (
	"testing"
	"time"
)

// Settles waits until ok reports true. It gives up after two minutes, so that no test runs for ever. The limit is not a
// measurement.
func Settles(ok func() bool) bool {
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Until is Settles for a condition that the rest of the test needs: if not met, the test fails.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !Settles(ok) {
		t.Fatalf("did not happen in time: %s", what)
	}
}
