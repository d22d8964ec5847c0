package launches

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
)

var errOpen, errRefused = errors.New("open"), errors.New("refused")

func isOpen(err error) bool { return errors.Is(err, errOpen) }

func TestEach(t *testing.T) {
	for _, tt := range []struct {
		name  string
		errs  map[int]error // by node
		made  []int
		is    []error
		isNot []error
	}{
		{"all", nil, []int{0, 1, 2, 3}, nil, nil},
		{"the rest is left out", map[int]error{1: errRefused}, []int{0, 10}, []error{errRefused}, nil},
		{"the rest is tried", map[int]error{1: errOpen}, []int{0, 2, 3, 10}, []error{errOpen}, nil},
		{"one is open, and one refused", map[int]error{1: errOpen, 2: errRefused}, []int{0, 10, 20}, []error{errOpen}, []error{errRefused}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			made, err := Each([]int{0, 1, 2, 3}, 1, func(n int) ([]int, error) {
				if err := tt.errs[n]; err != nil {
					return []int{10 * n}, err // an error may come with nodes that were made
				}
				return []int{n}, nil
			}, isOpen)
			slices.Sort(made)
			if !slices.Equal(made, tt.made) {
				t.Errorf("made %v, want %v", made, tt.made)
			}
			for _, want := range tt.is {
				if !errors.Is(err, want) {
					t.Errorf("the error %v is not %v", err, want)
				}
			}
			for _, not := range tt.isNot {
				if errors.Is(err, not) {
					t.Errorf("the error %v is %v", err, not)
				}
			}
			if len(tt.errs) == 0 && err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEachAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		begun := time.Now()
		if _, err := Each(make([]int, 6), 3, func(int) ([]int, error) { time.Sleep(time.Second); return nil, nil }, isOpen); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("six nodes of a second each, three at once, took %v", took)
		}
	})
}
