package gputrain

import (
	"testing"
	"time"
)

// HurryFunctions shortens functionGrace for a test. Call it before the test's pools open.
func HurryFunctions(t testing.TB, grace time.Duration) {
	old := functionGrace
	functionGrace = grace
	t.Cleanup(func() { functionGrace = old })
}

// ForgetInit makes this program, a child of a test, one that has not called Init yet.
func ForgetInit() { initCalled.Store(false) }
