// Package bubble is testing/synctest for tests that may run under the race detector.
//
// When several timers of a bubble are due at once, one thread runs them while a goroutine
// that the first of them woke may run another by receiving from its channel: under the
// race detector both do so as the same thread of its own, which it does not survive, but
// dies of SIGSEGV or "CHECK failed" (https://github.com/golang/go/issues/78156; go 1.26.8 has it). With
// one processor there is one thread at a time. What the detector finds does not depend on
// how many there are.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

var processors struct {
	sync.Mutex
	bubbles int
	before  int
}

// Test is synctest.Test. Under the race detector the program has one processor as long
// as there is a bubble.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if Race {
		enter()
		defer leave()
	}
	synctest.Test(t, f)
}

func enter() {
	processors.Lock()
	defer processors.Unlock()
	if processors.bubbles++; processors.bubbles == 1 {
		processors.before = runtime.GOMAXPROCS(1)
	}
}

func leave() {
	processors.Lock()
	defer processors.Unlock()
	if processors.bubbles--; processors.bubbles == 0 {
		runtime.GOMAXPROCS(processors.before)
	}
}
