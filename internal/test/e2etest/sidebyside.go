package e2etest

import (
	"sync"
	"testing"
)

// A Subtest is a subtest for SideBySide.
type Subtest struct {
	Name string
	Run  func(*testing.T)
}

// SideBySide runs subtests that mostly wait, in order, atOnce of them at the same time. t.Parallel would run as many at
// once as there are processors.
func SideBySide(t *testing.T, atOnce int, tests []Subtest) {
	var all sync.WaitGroup
	defer all.Wait()
	turn := make(chan bool, atOnce)
	for _, test := range tests {
		turn <- true
		all.Go(func() {
			defer func() { <-turn }()
			t.Run(test.Name, test.Run)
		})
	}
}
