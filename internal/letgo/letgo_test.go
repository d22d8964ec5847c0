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
