package console

import (
	"time"

	"github.com/gputrain/gputrain/observe"
)

// rateTime is how far back ended tasks count for the rate, if any have ended since then, and rateTasks how many of them.
const (
	rateTime  = 10 * time.Minute
	rateTasks = 50
)

// taskRate returns how many tasks end in a minute, by the last ones that have ended, or 0.
func taskRate(run observe.Run) float64 {
	ended := make([]*observe.Task, 0, rateTasks+1) // the newest is the last
	for i := range run.Tasks {
		if t := &run.Tasks[i]; !t.Ended.IsZero() && (t.State == "done" || t.State == "failed") {
			ended = newest(ended, t)
		}
	}
	for len(ended) > 1 && run.At.Sub(ended[0].Ended) > rateTime && run.At.Sub(ended[len(ended)-1].Ended) <= rateTime {
		ended = ended[1:]
	}
	if len(ended) == 0 {
		return 0
	}
	n, from := len(ended), ended[0].Started
	if n == rateTasks { // the time begins with the end of the first
		n, from = n-1, ended[0].Ended
	} else {
		for _, t := range ended {
			if t.Started.Before(from) {
				from = t.Started
			}
		}
	}
	if took := run.At.Sub(from); took > 0 {
		return float64(n) / took.Minutes()
	}
	return 0
}

// newest adds a task to those that have ended last, which are in order.
func newest(ended []*observe.Task, t *observe.Task) []*observe.Task {
	if len(ended) == rateTasks && !t.Ended.After(ended[0].Ended) {
		return ended
	}
	i := len(ended)
	ended = append(ended, t)
	for ; i > 0 && t.Ended.Before(ended[i-1].Ended); i-- {
		ended[i] = ended[i-1]
	}
	ended[i] = t
	if len(ended) > rateTasks {
		copy(ended, ended[1:])
		ended = ended[:rateTasks]
	}
	return ended
}

// rest returns how long the tasks that wait and run will take, and whether that can be said: by the rate at which tasks end, or by
// their own steps if none waits.
func rest(run observe.Run) (time.Duration, bool) {
	left := run.Counts.Waiting + run.Counts.Running
	if left == 0 {
		return 0, false
	}
	var last time.Time
	known := 0
	if run.Counts.Waiting == 0 {
		for _, t := range run.Tasks {
			if at, ok := t.ETA(run.At); ok {
				known++
				if at.After(last) {
					last = at
				}
			}
		}
	}
	if known == left {
		return last.Sub(run.At), true
	}
	rate := taskRate(run)
	if rate <= 0 {
		return 0, false
	}
	return seconds(float64(left) / rate * 60), true
}
