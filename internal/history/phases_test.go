package history_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/history"
)

func usual(t *testing.T, b *history.Book, phase string) time.Duration {
	t.Helper()
	got, err := b.Usual(phase)
	must(t, err)
	return got
}

// A phase usually takes the median of its last five runs, also after machines were forgotten, and for 90 days.
func TestPhases(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := history.In(dir)
		if got := usual(t, b, "pip"); got != 0 {
			t.Errorf("before the first run: %v", got)
		}
		for _, s := range []time.Duration{500, 40, 10, 30, 20, 50} { // the first is one too many
			must(t, b.Ran("pip", s*time.Second))
		}
		must(t, b.Ran("apt", time.Minute))
		must(t, b.Forget())
		b = history.In(dir)
		if pip, apt := usual(t, b, "pip"), usual(t, b, "apt"); pip != 30*time.Second || apt != time.Minute {
			t.Errorf("pip %v, apt %v", pip, apt)
		}
		time.Sleep(90 * 24 * time.Hour)
		if got := usual(t, b, "pip"); got != 0 {
			t.Errorf("after 90 days: %v", got)
		}
	})
}
