// Package sidebyside runs several subtests at a time.
package sidebyside

import (
	"sync"
	"testing"
)

// A Test is a subtest.
type Test struct {
	Name string
	Run  func(*testing.T)
	// Long leaves it out of a short run.
	Long bool
}

func (s Test) run(t *testing.T) {
	if s.Long && testing.Short() {
		t.Skip("scripts/test -deep runs it: it takes many seconds")
	}
	s.Run(t)
}

// Run runs subtests that mostly wait, in order, atOnce of them at the same time. t.Parallel would run as many at once
// as there are processors.
func Run(t *testing.T, atOnce int, tests []Test) {
	var all sync.WaitGroup
	defer all.Wait()
	turn := make(chan bool, atOnce)
	for _, test := range tests {
		turn <- true
		all.Go(func() {
			defer func() { <-turn }()
			t.Run(test.Name, test.run)
		})
	}
}
