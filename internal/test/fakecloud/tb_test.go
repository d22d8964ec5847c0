package fakecloud

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A witness is a testing.TB that records its failures, so that a test can check whether the kit reports one.
type witness struct {
	testing.TB
	mu       sync.Mutex
	failures []string
}

func (w *witness) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

// saw fails t unless one failure contains all the texts. Without texts, it fails t if there is any failure. It then
// clears the failures.
func (w *witness) saw(t *testing.T, texts ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	failures := w.failures
	w.failures = nil
	if len(texts) == 0 {
		if len(failures) > 0 {
			t.Errorf("the test failed: %q", failures)
		}
		return
	}
	for _, f := range failures {
		missing := false
		for _, text := range texts {
			missing = missing || !strings.Contains(f, text)
		}
		if !missing {
			return
		}
	}
	t.Errorf("the test was to fail with %q, not with %q", texts, failures)
}
