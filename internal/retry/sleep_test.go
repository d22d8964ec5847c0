package retry

import (
	"context"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
)

func TestSleep(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		begun := time.Now()
		if !Sleep(t.Context(), time.Minute) || time.Since(begun) != time.Minute {
			t.Errorf("slept for %v", time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if Sleep(ctx, time.Minute) || time.Since(begun) != time.Minute+time.Second {
			t.Errorf("cancelled after %v", time.Since(begun))
		}
	})
}
