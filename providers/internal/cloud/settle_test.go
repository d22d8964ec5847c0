package cloud_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A search ends when it finds something, when a complete answer after the lag lacks it,
// when the grace for failed looks is over, or after one look if the caller has cancelled.
func TestSettle(t *testing.T) {
	t.Parallel()
	failed := errors.New("the list failed")
	for name, tt := range map[string]struct {
		find  func(since time.Duration) (string, bool, error)
		grace time.Duration
		ended bool
		want  string
		after [2]time.Duration // the earliest and the latest end
	}{
		"found late":   {find: func(since time.Duration) (string, bool, error) { return "i-1", since >= 5*time.Second, nil }, want: "i-1", after: [2]time.Duration{5 * time.Second, 6 * time.Second}},
		"not there":    {find: func(time.Duration) (string, bool, error) { return "", false, nil }, after: [2]time.Duration{10 * time.Second, 12 * time.Second}},
		"looks fail":   {find: func(time.Duration) (string, bool, error) { return "", false, failed }, grace: 20 * time.Second, after: [2]time.Duration{30 * time.Second, 31 * time.Second}},
		"by default":   {find: func(time.Duration) (string, bool, error) { return "", false, failed }, after: [2]time.Duration{70 * time.Second, 71 * time.Second}},
		"given up":     {find: func(time.Duration) (string, bool, error) { return "", false, nil }, ended: true},
		"one last one": {find: func(time.Duration) (string, bool, error) { return "i-1", true, nil }, ended: true, want: "i-1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.ended {
					cancel()
				}
				begun, lost := time.Now(), errors.New("no answer")
				got, err := cloud.Search[string]{
					Name: "p1-0", Why: lost, Lag: 10 * time.Second, Pause: time.Second, Grace: tt.grace,
					Find: func(ctx context.Context) (string, bool, error) {
						if ctx.Err() != nil {
							t.Error("a look under a context that has ended")
						}
						return tt.find(time.Since(begun))
					},
				}.Settle(ctx)
				if took := time.Since(begun); took < tt.after[0] || took > tt.after[1] {
					t.Errorf("it took %v; want %v to %v", took, tt.after[0], tt.after[1])
				}
				if tt.want != "" && (got != tt.want || err != nil) {
					t.Errorf("%q, %v", got, err)
				}
				if tt.want == "" && !(errors.Is(err, driver.ErrUnavailable) && errors.Is(err, lost)) {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}
