package sim

import (
	"testing"
	"time"
)

// HurryLaunches has launches without an answer repeated after a pause, until the test ends.
func HurryLaunches(t *testing.T, pause time.Duration) {
	was := repeatPause
	repeatPause = pause
	t.Cleanup(func() { repeatPause = was })
}
