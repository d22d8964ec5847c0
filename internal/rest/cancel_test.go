package rest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
)

var errLeft = errors.New("the pool is closed")

func contextWithCause(t *testing.T) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	return ctx, cancel
}

// A cancelled call ends at once, in every phase, and its error has the cause and reports what it may have left behind.
func TestCancel(t *testing.T) {
	for _, tt := range []struct {
		name      string
		steps     []step
		opts      []Option
		ambiguous bool
		status    int
		want      string
	}{
		{"under way", []step{hangs}, nil, true, 0, "POST /servers: the pool is closed (context canceled); it may have taken effect"},
		{"a read under way", []step{hangs}, []Option{Safe}, false, 0, "POST /servers: the pool is closed (context canceled)"},
		{"in the answer", []step{func(r *http.Request) (*http.Response, error) {
			resp, err := replies(200, "")(r)
			resp.Body = bodyThatHangs{r.Context()}
			return resp, err
		}}, nil, true, 200, "POST /servers: 200 OK: the answer broke off after 0 bytes: the pool is closed (context canceled); it may have taken effect"},
		{"before a second attempt", []step{replies(429, "slow down", "Retry-After", "60")}, nil, false, 429,
			`POST /servers: 429 Too Many Requests: before it was tried again: the pool is closed (context canceled): "slow down"`},
		{"before a second attempt that may be", []step{fails(reset)}, []Option{Idempotent}, true, 0,
			"POST /servers: read tcp: connection reset by peer; then, before it was tried again: the pool is closed (context canceled); it may have taken effect"},
		{"at the limiter", []step{replies(200, "{}")}, nil, false, 0, "POST /servers: the pool is closed (context canceled)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				limit := NewLimiter(1, time.Hour)
				if err := wait(t.Context(), limit); err != nil {
					t.Fatal(err)
				}
				opts := tt.opts
				if tt.name == "at the limiter" {
					opts = []Option{Limit(limit)}
				}
				c, _ := scripted(t, Config{Timeout: time.Hour}, tt.steps...)
				ctx, cancel := contextWithCause(t)
				time.AfterFunc(100*time.Millisecond, func() { cancel(errLeft) })
				start := time.Now()
				e := failure(t, c.Do(ctx, "POST", "/servers", nil, nil, opts...))
				if took := time.Since(start); took != 100*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				if e.Error() != tt.want || e.Ambiguous() != tt.ambiguous || e.Status != tt.status {
					t.Errorf("Ambiguous is %v, status %d:\n     %v\nwant %s", e.Ambiguous(), e.Status, e, tt.want)
				}
				if !errors.Is(e, context.Canceled) || !errors.Is(e, errLeft) {
					t.Errorf("it is not context.Canceled, or not its cause: %v", e)
				}
			})
		})
	}
}

type bodyThatHangs struct{ ctx context.Context }

func (b bodyThatHangs) Read([]byte) (int, error) { <-b.ctx.Done(); return 0, b.ctx.Err() }
func (bodyThatHangs) Close() error               { return nil }

// A context that has ended makes no call.
func TestCancelledBefore(t *testing.T) {
	c, api := scripted(t, Config{}, replies(200, "{}"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := failure(t, c.Do(ctx, "POST", "/servers", nil, nil))
	if api.attempts() != 0 || !errors.Is(e, context.Canceled) || e.Ambiguous() {
		t.Errorf("%d attempts: %v", api.attempts(), e)
	}
}

// A deadline ends a call that would be retried.
func TestDeadline(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _ := scripted(t, Config{Attempts: 1000}, replies(503, ""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		e := failure(t, c.Do(ctx, "GET", "/servers", nil, nil))
		if took := time.Since(start); took != time.Minute || !errors.Is(e, context.DeadlineExceeded) || e.Status != 503 {
			t.Errorf("after %v: %v", took, e)
		}
	})
}

// The time-out bounds one attempt, without the wait for the limiter; a call's own time-out replaces it.
func TestTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		after := func(d time.Duration) step {
			return func(r *http.Request) (*http.Response, error) {
				select {
				case <-time.After(d):
					return replies(200, "{}")(r)
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
			}
		}
		c, api := scripted(t, Config{Timeout: 10 * time.Second, Attempts: 2, Limit: NewLimiter(1, time.Minute)}, after(9*time.Second), after(11*time.Second))
		if err := c.Do(t.Context(), "GET", "/servers", nil, nil); err != nil {
			t.Error(err)
		}
		e := failure(t, c.Do(t.Context(), "GET", "/servers", nil, nil)) // has to wait for the limiter
		if api.attempts() != 3 || !errors.Is(e, context.DeadlineExceeded) || !strings.HasPrefix(e.Error(), "GET /servers: no answer within 10s: ") {
			t.Errorf("after %d attempts: %v", api.attempts(), e)
		}
		if err := c.Do(t.Context(), "GET", "/servers", nil, nil, Timeout(time.Minute)); err != nil {
			t.Error(err)
		}
	})
}

// In any span of a limiter's length there are at most its number of calls, with no needless wait.
func TestLimiter(t *testing.T) {
	for _, tt := range []struct {
		n     int
		span  time.Duration
		calls int
		took  time.Duration
	}{
		{1, 12 * time.Second, 5, 48 * time.Second},
		{1, time.Second, 10, 9 * time.Second},
		{10, time.Minute, 35, 3 * time.Minute},
		{100, time.Minute, 100, 0},
		{0, time.Second, 2, time.Second},
	} {
		bubble.Test(t, func(t *testing.T) {
			l := NewLimiter(tt.n, tt.span)
			var mu sync.Mutex
			var went []time.Time
			var wg sync.WaitGroup
			start := time.Now()
			for range tt.calls {
				wg.Go(func() {
					if err := wait(t.Context(), l); err != nil {
						t.Error(err)
					}
					mu.Lock()
					went = append(went, time.Now())
					mu.Unlock()
				})
			}
			wg.Wait()
			if took := time.Since(start); took != tt.took {
				t.Errorf("%d in %v: %d calls took %v, want %v", tt.n, tt.span, tt.calls, took, tt.took)
			}
			n := max(tt.n, 1)
			for i := n; i < len(went); i++ {
				if d := went[i].Sub(went[i-n]); d < tt.span {
					t.Errorf("%d in %v: %d went within %v", tt.n, tt.span, n+1, d)
				}
			}
		})
	}
}

// After an idle time a limiter allows no more than its number at once.
func TestLimiterAfterARest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := NewLimiter(3, time.Minute)
		var waits []time.Duration
		for i := range 8 {
			if i == 2 {
				time.Sleep(59 * time.Second)
			}
			start := time.Now()
			if err := wait(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			waits = append(waits, time.Since(start))
		}
		for i, want := range []time.Duration{0, 0, 0, time.Second, 0, 59 * time.Second, time.Second, 0} {
			if waits[i] != want {
				t.Errorf("the waits are %v", waits)
				break
			}
		}
	})
}

// A caller that gives up waiting takes no other caller's turn.
func TestLimiterGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := NewLimiter(1, time.Minute)
		start := time.Now()
		if err := wait(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := wait(ctx, l); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if err := wait(t.Context(), l); err != nil || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// Launches wait for their own limiter and for the client's; other calls do not wait for launches. Retries wait like
// first attempts.
func TestLimits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		launches := NewLimiter(1, 12*time.Second)
		start := time.Now()
		var mu sync.Mutex
		when := map[string][]time.Duration{}
		c, _ := scripted(t, Config{Limit: NewLimiter(1, time.Second)}, func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			when[r.Method] = append(when[r.Method], time.Since(start))
			if len(when["POST"]) == 2 && r.Method == "POST" {
				return replies(429, "", "Retry-After", "1")(r)
			}
			return replies(200, "{}")(r)
		})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := c.Do(t.Context(), "POST", "/launch", nil, nil, Limit(launches)); err != nil {
					t.Error(err)
				}
			})
		}
		for range 5 {
			wg.Go(func() {
				if err := c.Do(t.Context(), "GET", "/servers", nil, nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		var last time.Duration = -time.Hour
		for _, at := range when["POST"] {
			if at-last < 12*time.Second {
				t.Errorf("launches went at %v", when["POST"])
			}
			last = at
		}
		if reads := when["GET"]; len(when["POST"]) != 4 || reads[4] > 5*time.Second {
			t.Errorf("launches went at %v, reads at %v", when["POST"], reads)
		}
	})
}
