package hostile_test

import (
	"math/rand/v2"
	"testing"

	"github.com/gputrain/gputrain/internal/test/hostile"
)

// FuzzHostileFiles derives a node's answers about files from the input.
func FuzzHostileFiles(f *testing.F) {
	addPrograms(f)
	files := newFiles(f)
	f.Fuzz(func(t *testing.T, program []byte) {
		w := &world{t: t, files: files}
		if err := w.tryFiles(rand.New(hostile.NewProgram(program))); err != nil {
			t.Error(err)
		}
	})
}

// FuzzHostileTasks derives a node's answers about its tasks from the input.
func FuzzHostileTasks(f *testing.F) {
	addPrograms(f)
	f.Fuzz(func(t *testing.T, program []byte) {
		w := &world{t: t}
		if err := w.trySupervisor(rand.New(hostile.NewProgram(program))); err != nil {
			t.Error(err)
		}
	})
}

// addPrograms adds seed inputs whose first random numbers differ.
func addPrograms(f *testing.F) {
	for n := range byte(16) {
		f.Add([]byte{n << 4, 0, 0, 0, 0, 0, 0, 0, n})
	}
}
