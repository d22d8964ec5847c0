package bubble

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// Many timers are due at once, and goroutines receive from some while others run. Under the race
// detector and with two processors, synctest.Test alone does not finish this test.
func TestTimersThatAreDueAtOnce(t *testing.T) {
	before := runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	defer runtime.GOMAXPROCS(before)
	inside := runtime.GOMAXPROCS(0)
	for range 20 {
		Test(t, func(t *testing.T) {
			if n := runtime.GOMAXPROCS(0); Race && n != 1 || !Race && n != inside {
				t.Errorf("%d processors", n)
			}
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					first, second := time.NewTimer(time.Millisecond), time.NewTimer(time.Millisecond)
					for range 100 {
						<-first.C
						select {
						case <-second.C:
							second.Reset(time.Millisecond)
						default:
						}
						first.Reset(time.Millisecond)
					}
				})
			}
			wg.Wait()
		})
	}
	if n := runtime.GOMAXPROCS(0); n != inside {
		t.Errorf("%d processors afterwards, %d before", n, inside)
	}
}

func TestBubblesSideBySide(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Run("all", func(t *testing.T) {
		for range 4 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				Test(t, func(*testing.T) { time.Sleep(time.Hour) })
			})
		}
	})
	if n := runtime.GOMAXPROCS(0); n != before {
		t.Errorf("%d processors afterwards, %d before", n, before)
	}
}
