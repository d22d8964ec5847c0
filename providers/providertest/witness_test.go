package providertest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// A witness is a test that records its failures. Its cleanups run after the check, and
// their failures count too.
type witness struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (w *witness) note(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, s)
}

func (w *witness) Error(args ...any)                 { w.note(fmt.Sprint(args...)) }
func (w *witness) Errorf(format string, args ...any) { w.note(fmt.Sprintf(format, args...)) }
func (w *witness) Fatal(args ...any)                 { w.note(fmt.Sprint(args...)); runtime.Goexit() }
func (w *witness) Fatalf(format string, args ...any) {
	w.note(fmt.Sprintf(format, args...))
	runtime.Goexit()
}
func (w *witness) Cleanup(f func())    { w.cleanups = append(w.cleanups, f) }
func (w *witness) Log(...any)          {}
func (w *witness) Logf(string, ...any) {}

// watch runs a check and returns its failures.
func watch(t *testing.T, c check, h Harness) []string {
	w := &witness{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { c.in(w, h) }) // in its own goroutine, which Fatal ends
	wg.Wait()
	for _, f := range slices.Backward(w.cleanups) {
		wg.Go(f)
		wg.Wait()
	}
	return w.failures
}

// named returns a check by its name.
func named(t *testing.T, name string) check {
	t.Helper()
	all := checks()
	i := slices.IndexFunc(all, func(c check) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("there is no check %q", name)
	}
	return all[i]
}
