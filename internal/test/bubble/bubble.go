// Package bubble makes testing/synctest usable under the race detector.
//
// When several timers of a bubble are due at once, one thread runs them while a goroutine that the first of them woke
// may run another by receiving from its channel. Under the race detector both act as the same thread of the detector,
// which then dies of SIGSEGV or "CHECK failed" (https://github.com/golang/go/issues/78156; go 1.26.8 has it). With one
// processor there is one thread at a time. What the detector finds does not depend on the number of threads.
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

// Test is synctest.Test. Under the race detector the program has one processor while a bubble runs.
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
