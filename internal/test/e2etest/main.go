// Package e2etest has what the suites in internal/test/e2e share: pools, clouds, hosts, containers, functions, and
// child processes that play a role. The suites use gputrain as its users do.
package e2etest

import (
	"log"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is TestMain of a suite, after gputrain.Init. If the program has a role, Main plays it. Otherwise it runs the
// tests with their own state directory, and each test fails if a goroutine outlives it.
func Main(m *testing.M) {
	if PlaysRole() {
		return
	}
	EachLooksForLeaks(m)
	state, err := os.MkdirTemp("", "gputrain-state-")
	if err != nil {
		log.Fatal(err)
	}
	os.Setenv("XDG_STATE_HOME", state)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(state)
		os.Exit(code)
	}))
}
