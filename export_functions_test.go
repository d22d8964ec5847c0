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

// SetCUDAPatience sets how long a node may say that it is not ready, and how long it is
// until it is asked again, for a test, before its pools open.
func SetCUDAPatience(t testing.TB, patience, pause time.Duration) {
	oldPatience, oldPause := cudaPatience, cudaPause
	cudaPatience, cudaPause = patience, pause
	t.Cleanup(func() { cudaPatience, cudaPause = oldPatience, oldPause })
}

// ForgetInit has the program be one that has not called Init yet, for children of tests.
func ForgetInit() { initCalled.Store(false) }
