package e2etest

import (
	"testing"
	"time"
)

// patience is how long a test waits for what must happen. It only keeps a test from running for ever, and measures nothing: a
// busy machine has taken two minutes to start two containers.
const patience = 5 * time.Minute

// Settles waits until ok reports true, for at most patience.
func Settles(ok func() bool) bool {
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
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
