package gputrain_test

import (
	"sync"
	"testing"
)

// A subtest is one of those that run side by side.
type subtest struct {
	name string
	run  func(*testing.T)
}

// sideBySide runs subtests that wait more than they work, so many at once, the first
// ones first. Parallel ones would be as many as there are processors.
func sideBySide(t *testing.T, atOnce int, tests []subtest) {
	var all sync.WaitGroup
	defer all.Wait()
	turn := make(chan bool, atOnce)
	for _, test := range tests {
		turn <- true
		all.Go(func() {
			defer func() { <-turn }()
			t.Run(test.name, test.run)
		})
	}
}
