package letgo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// What comes within Patience is received, and then the caller is gone, for good.
func TestNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, from := New(ctx), make(chan int, 5)
		from <- 3
		time.AfterFunc(time.Hour, cancel)
		time.AfterFunc(time.Hour+Patience/2, func() { from <- 1 })
		time.AfterFunc(time.Hour+2*Patience, func() { from <- 0 })
		began := time.Now()
		for _, want := range []struct {
			v, missing int
			after      time.Duration
		}{{3, -1, 0}, {1, -1, time.Hour + Patience/2}, {0, 0, time.Hour + Patience}, {0, 2, time.Hour + Patience}, {0, 4, time.Hour + Patience}} {
			v, missing := Next(&c, from, func(v int) int { return v })
			if v != want.v || missing != want.missing || time.Since(began) != want.after {
				t.Errorf("%d, %d after %v, want %+v", v, missing, time.Since(began), want)
			}
		}
		if time.Sleep(time.Hour); !c.Gone() {
			t.Error("it is not gone")
		}
		if v, missing := Next(&Caller{}, from, nil); v != 0 || missing != -1 {
			t.Errorf("%d, %d", v, missing)
		}
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := New(ctx)
		start := func(f func()) { go f() }
		if v, ok := Do(&c, start, func() int { time.Sleep(time.Hour); return 7 }); v != 7 || !ok {
			t.Errorf("%d, %v", v, ok)
		}
		cancel()
		began := time.Now()
		if _, ok := Do(&c, start, func() int { time.Sleep(time.Hour); return 7 }); ok || time.Since(began) != Patience || !c.Gone() {
			t.Errorf("%v after %v", ok, time.Since(began))
		}
		time.Sleep(2 * time.Hour)
	})
}

// Who waits for nodes that answer waits for Longest, and for half a second longer than the last answer at most.
func TestWhile(t *testing.T) {
	for _, tt := range []struct {
		name            string
		answersFor      time.Duration // from the end of the context on
		takes, returned time.Duration
		ok              bool
	}{
		{"all answer, and it ends", time.Hour, 2 * time.Second, 2 * time.Second, true},
		{"all answer, and it does not end", time.Hour, time.Hour, Longest, false},
		{"one is silent", 0, 2 * time.Second, Patience, false},
		{"one falls silent", 700 * time.Millisecond, 2 * time.Second, 3 * Patience, false},
		{"it ends at the last moment", 0, Patience - 1, Patience - 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				c := New(ctx)
				cancel()
				ended := time.Now()
				c.While(func(ctx context.Context) bool {
					if time.Since(ended) < tt.answersFor {
						time.Sleep(100 * time.Millisecond)
						return true
					}
					<-ctx.Done()
					return false
				})
				_, ok := Do(&c, func(f func()) { go f() }, func() int { time.Sleep(tt.takes); return 1 })
				if took := time.Since(ended); ok != tt.ok || took != tt.returned {
					t.Errorf("%v after %v, want %v after %v", ok, took, tt.ok, tt.returned)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

func TestOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := func(f func()) { go f() }
		c, over := New(ctx), make(chan struct{})
		either := Over(&c, start, over)
		time.AfterFunc(time.Hour, func() { close(over) })
		if <-either; c.Gone() {
			t.Error("it is gone, though all is over")
		}
		either = Over(&c, start, nil)
		cancel()
		began := time.Now()
		if <-either; !c.Gone() || time.Since(began) != Patience {
			t.Errorf("gone: %v, after %v", c.Gone(), time.Since(began))
		}
		for _, c := range []Caller{{}, New(context.Background()), New(context.WithoutCancel(ctx))} {
			if Over(&c, nil, over) != (<-chan struct{})(over) || !c.Stays() {
				t.Error("a caller that never gives up needs a goroutine")
			}
		}
	})
}

// A Rest takes more while it is waited for, and after that.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Rest
		r.Wait()
		began := time.Now()
		r.Go(func() {
			time.Sleep(time.Minute)
			r.Go(func() { time.Sleep(time.Minute) })
		})
		for range 3 {
			go r.Wait()
		}
		if r.Wait(); time.Since(began) != 2*time.Minute {
			t.Errorf("after %v", time.Since(began))
		}
		r.Go(func() { time.Sleep(time.Minute) })
		if r.Wait(); time.Since(began) != 3*time.Minute {
			t.Errorf("after %v", time.Since(began))
		}
	})
}
