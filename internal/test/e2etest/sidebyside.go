package e2etest

import (
	"sync"
	"testing"
)

// A Subtest is a subtest for SideBySide.
type Subtest struct {
	Name string
	Run  func(*testing.T)
	// Long leaves it out of a short run.
	Long bool
}

func (s Subtest) run(t *testing.T) {
	if s.Long && testing.Short() {
		t.Skip("scripts/test -long runs it: it takes many seconds")
	}
	s.Run(t)
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
			t.Run(test.Name, test.run)
		})
	}
}
