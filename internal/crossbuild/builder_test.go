package crossbuild

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
)

// newBuilder returns a Builder whose builds take an hour of fake time, and then return fail's
// error.
func newBuilder(ctx context.Context, running *sync.WaitGroup, fail func() error) (b *Builder, begun *[]string) {
	begun = new([]string)
	var mu sync.Mutex
	return &Builder{Context: ctx, Go: running.Go, make: func(ctx context.Context, to Platform) (*Binary, error) {
		mu.Lock()
		*begun = append(*begun, to.String())
		mu.Unlock()
		select {
		case <-time.After(time.Hour):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := fail(); err != nil {
			return nil, err
		}
		return &Binary{Digest: to.String()}, nil
	}}, begun
}

func TestBuildsOnceForAllWhoAsk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var running, asking sync.WaitGroup
		defer running.Wait()
		b, begun := newBuilder(t.Context(), &running, func() error { return nil })
		impatient, leave := context.WithTimeout(t.Context(), time.Minute)
		defer leave()
		if _, err := b.Build(impatient, target); !errors.Is(err, context.DeadlineExceeded) { // although it was the first to ask
			t.Errorf("the caller that gave up got %v", err)
		}
		for range 20 {
			for _, to := range []Platform{target, {"linux", "386"}} {
				asking.Go(func() {
					if bin, err := b.Build(t.Context(), to); err != nil || bin.Digest != to.String() {
						t.Errorf("Build(%v) returned %v, %v", to, bin, err)
					}
				})
			}
		}
		asking.Wait()
		slices.Sort(*begun)
		if !slices.Equal(*begun, []string{"linux/386", "linux/arm64"}) {
			t.Errorf("the builds were %q", *begun)
		}
	})
}

func TestAFailureStandsForAWhile(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		defer running.Wait()
		failure := errors.New("no")
		b, begun := newBuilder(t.Context(), &running, func() error { return failure })
		for range 50 {
			if _, err := b.Build(t.Context(), target); !errors.Is(err, failure) {
				t.Fatalf("got %v", err)
			}
		}
		if len(*begun) != 1 {
			t.Errorf("it was built %d times", len(*begun))
		}
		time.Sleep(retryAfter + 1)
		failure = nil
		if _, err := b.Build(t.Context(), target); err != nil || len(*begun) != 2 {
			t.Errorf("later: %v, after %d builds", err, len(*begun))
		}
	})
}

func TestTheEndOfThePoolEndsTheBuild(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		ctx, cancel := context.WithCancelCause(t.Context())
		over := errors.New("over")
		b, _ := newBuilder(ctx, &running, func() error { return nil })
		time.AfterFunc(time.Second, func() { cancel(over) })
		if _, err := b.Build(t.Context(), target); !errors.Is(err, over) {
			t.Errorf("got %v", err)
		}
		running.Wait()
	})
}

// TestEventsTell runs the real build, which fails as there is no go command.
func TestEventsTell(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("GOROOT", "")
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "cache"))
	t.Setenv("HOME", os.Getenv("XDG_CACHE_HOME"))
	type event struct {
		to   Platform
		done bool
		err  error
	}
	var events []event
	b := &Builder{Context: t.Context(), Go: func(f func()) { f() }, Event: func(to Platform, done bool, _ time.Duration, err error) {
		events = append(events, event{to, done, err})
	}}
	_, err := b.Build(t.Context(), target)
	if !errors.Is(err, ErrNoToolchain) || len(events) != 2 || events[0] != (event{to: target}) || events[1] != (event{target, true, err}) {
		t.Errorf("got %v, and the events %v", err, events)
	}
}
