package seeds

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gputrain/gputrain/internal/test/bubble"
)

// mostFailed plans may fail before no other one is begun.
const mostFailed = 5

// Plans tries the plans of the seeds that a variable of the environment names, or usual ones from seed 1 on: four at a time, each
// in virtual time and with a folder of its own that does not exist yet. alone means that there is one plan, so that it can
// show what it does. A plan that fails says how to run it alone, with the package's folder. Plans returns how many there were.
func Plans(t *testing.T, variable, folder string, usual int, sum *Tally, run func(t *testing.T, seed uint64, dir string, alone bool)) (plans int) {
	t.Helper()
	first, plans := FromEnv(t, variable, usual)
	dir := t.TempDir()
	if memory, err := os.MkdirTemp("/dev/shm", "gputrain-plans-"); err == nil { // plans often sync to disk
		defer os.RemoveAll(memory)
		dir = memory
	}
	var next, failed atomic.Int64
	name := t.Name()
	t.Run("plans", func(t *testing.T) {
		for worker := range min(4, plans) {
			t.Run(fmt.Sprint("worker ", worker), func(t *testing.T) {
				t.Parallel()
				for failed.Load() < mostFailed {
					n := next.Add(1) - 1
					if n >= int64(plans) {
						return
					}
					seed := first + uint64(n)
					at := filepath.Join(dir, fmt.Sprint(seed))
					if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
						bubble.Test(t, func(t *testing.T) { run(t, seed, at, plans == 1) })
					}) {
						failed.Add(1)
						t.Errorf("a plan has failed; to run it alone: %s=%d-%[2]d go test -run '^%s$' ./%s", variable, seed, name, folder)
					}
					os.RemoveAll(at)
				}
			})
		}
	})
	t.Logf("%d plans from seed %d on: %v", plans, first, sum)
	return plans
}

// A Tally counts what has come of plans. The zero value is empty.
type Tally struct {
	mu sync.Mutex
	of map[string]int
}

// Add counts n of a kind.
func (s *Tally) Add(n int, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.of[what] += n
}

// Count returns how many of a kind were counted.
func (s *Tally) Count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[what]
}

// String returns "3 cancelled, 40 done".
func (s *Tally) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for what, n := range s.of {
		all = append(all, fmt.Sprint(n, " ", what))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
