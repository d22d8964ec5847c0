// Package seeds reads from the environment which seeds a test tries.
package seeds

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// FromEnv returns the first seed and the number of seeds, 1 and n if the variable is empty. "10000" stands for the seeds
// from 1 to 10000, and "17-20" for four seeds.
func FromEnv(t testing.TB, variable string, n int) (first uint64, count int) {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return 1, n
	}
	first, count, err := parse(text)
	if err != nil {
		t.Fatalf("%s is %q: %v", variable, text, err)
	}
	return first, count
}

func parse(text string) (first uint64, count int, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		from, to = "1", text
	}
	first, err = strconv.ParseUint(from, 10, 32)
	if err != nil {
		return 0, 0, err
	}
	last, err := strconv.ParseUint(to, 10, 32)
	if err != nil {
		return 0, 0, err
	}
	if last < first {
		return 0, 0, fmt.Errorf("the last seed, %d, is less than the first, %d", last, first)
	}
	return first, int(last - first + 1), nil
}
