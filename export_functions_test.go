package gputrain

import (
	"testing"
	"time"
)

// HurryFunctions shortens FunctionGrace for a test, before its pools open.
func HurryFunctions(t testing.TB, grace time.Duration) {
	old := functionGrace
	functionGrace = grace
	t.Cleanup(func() { functionGrace = old })
}
