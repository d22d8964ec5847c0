package tally

import (
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A log is the counts that a Tally has reported.
type log struct {
	mu   sync.Mutex
	all  []Count
	last Count
	sum  map[string]int // Done, by name
}

func (l *log) add(c Count) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all, l.last = append(l.all, c), c
	if l.sum == nil {
		l.sum = map[string]int{}
	}
	for _, e := range c.Ended {
		l.sum[e.Name] += e.Done
	}
}

// reported returns how many counts there are, and the last.
func (l *log) reported() (n int, last Count) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all), l.last
}

// Beyond so many in a second, tasks are counted, and the counts come a quarter of a second later.
func TestTally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		tally := New(2, l.add)
		tasks := make([]Task, 5)
		var shown []bool
		for i := range tasks {
			shown = append(shown, tally.Queued(&tasks[i]))
		}
		if want := []bool{true, true, false, false, false}; !slices.Equal(shown, want) {
			t.Errorf("shown are %v, want %v", shown, want)
		}
		for i := range tasks[:4] {
			if got, late := tally.Started(&tasks[i], true); got != (i < 2) || late {
				t.Errorf("task %d is shown: %v, late: %v", i, got, late)
			}
		}
		for i := range tasks[:3] {
			if got := tally.Ended(&tasks[i], End{Name: "f", Node: i, Attempts: 1, Time: time.Second, USD: 0.5}); got != (i < 2) {
				t.Errorf("task %d is shown at its end: %v", i, got)
			}
		}
		if n, last := l.reported(); n != 0 {
			t.Errorf("too early: %+v", last)
		}
		time.Sleep(interval)
		synctest.Wait()
		want := Count{Waiting: 1, Running: 1, Ended: []Ended{{Name: "f", Node: 2, Done: 1, Attempts: 1, Time: time.Second, USD: 0.5}}}
		if n, last := l.reported(); n != 1 || !reflect.DeepEqual(last, want) {
			t.Errorf("%d, the last is %+v, want %+v", n, last, want)
		}
		for _, want := range []struct {
			task        *Task
			late, begun bool
		}{{&tasks[3], true, true}, {&tasks[3], false, false}, {&tasks[0], false, false}, {new(Task), true, false}} { // they fail
			if late, begun := tally.Show(want.task); late != want.late || begun != want.begun {
				t.Errorf("%v, %v, want %+v", late, begun, want)
			}
		}
		var about Task
		tally.Started(&about, false)
		if late, begun := tally.Show(&about); !late || begun {
			t.Errorf("a task that was about to run: %v, %v", late, begun)
		}
		if tasks[3].Queued() != interval || tasks[3].Begun() != interval || about.Begun() != 0 {
			t.Errorf("%v, %v, %v", tasks[3].Queued(), tasks[3].Begun(), about.Begun())
		}
		if !tally.Ended(&tasks[3], End{}) {
			t.Error("a task that is shown is counted at its end")
		}
		tally.Ended(&tasks[4], End{Cancelled: true, Node: -1})
		tally.Flush()
		_, last := l.reported()
		if want := (Count{Ended: []Ended{{Node: -1, Cancelled: 1}}}); !reflect.DeepEqual(last, want) {
			t.Errorf("%+v, want %+v", last, want)
		}
		tally.Flush()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n, _ := l.reported(); n != 2 {
			t.Errorf("%d counts, though nothing changes", n)
		}
	})
}

// A task that begins to run when there is room is shown from then on.
func TestShownOnceItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		tally := New(1, l.add)
		var first, second Task
		tally.Queued(&first)
		tally.Queued(&second)
		time.Sleep(time.Second)
		synctest.Wait()
		if _, last := l.reported(); last.Waiting != 1 {
			t.Errorf("%+v", last)
		}
		if isShown, late := tally.Started(&second, true); !isShown || !late || !tally.Ended(&second, End{}) {
			t.Errorf("%v, %v, %+v", isShown, late, second)
		}
		var third Task // runs without being shown
		tally.Started(&third, true)
		time.Sleep(time.Second)
		if isShown, _ := tally.Started(&third, true); isShown || tally.Ended(&third, End{Name: "f"}) {
			t.Error("a task is shown in the middle of its run")
		}
		tally.Flush()
		if _, last := l.reported(); last.Waiting+last.Running != 0 || len(last.Ended) != 1 {
			t.Errorf("%+v", last)
		}
	})
}

// Every task is shown or counted, however many there are at a time and of whatever names.
func TestNoneIsLost(t *testing.T) {
	var l log
	tally := New(10, l.add)
	var wg sync.WaitGroup
	var mu sync.Mutex
	shown := 0
	for worker := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				var task Task
				tally.Queued(&task)
				tally.Started(&task, true)
				if tally.Ended(&task, End{Name: string(rune('a' + worker*40 + i%40))}) {
					mu.Lock()
					shown++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	tally.Flush()
	done, most := 0, 0
	for _, n := range l.sum {
		done += n
	}
	for _, c := range l.all {
		most = max(most, len(c.Ended))
	}
	if done+shown != 16000 || l.last.Waiting+l.last.Running != 0 || most > mostNames+1 {
		t.Errorf("%d are counted and %d shown of 16000, %d wait and %d run, %d names at once", done, shown, l.last.Waiting, l.last.Running, most)
	}
}
