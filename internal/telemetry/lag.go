package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// A device that works for at least workingPercent of the time is compared with others that do.
	workingPercent = 50
	// A clock below slowClock of the median is slow.
	slowClock = 0.7
	// A device that has been slow for slowPatience is reported.
	slowPatience = time.Minute
)

// A Lag is a device that slows the others down.
type Lag struct {
	Node   int
	Device string
	// Text says by how much, or why: "its clock is 510 MHz, and the median of 16 devices 1755 MHz".
	Text string
}

// Lags finds devices that slow down what runs on several of them. Times are given to it.
type Lags struct {
	mu    sync.Mutex
	since map[lagging]time.Time // when a device became slow; zero once it was reported
	told  hourly
}

type lagging struct {
	node   int
	device string
}

// Look returns the devices that have been slow for long, once each time, by the last samples of nodes. It compares devices of
// one name that work.
func (l *Lags) Look(now time.Time, nodes map[int][]Sample) (lags []Lag) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clocks := map[string][]float64{}
	for _, samples := range nodes {
		for _, s := range samples {
			if s.Utilization >= workingPercent && s.ClockMHz > 0 {
				clocks[s.Name] = append(clocks[s.Name], s.ClockMHz)
			}
		}
	}
	for _, all := range clocks {
		slices.Sort(all)
	}
	slow := map[lagging]time.Time{}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		for _, s := range nodes[node] {
			text := lag(s, clocks[s.Name])
			if text == "" {
				continue
			}
			key := lagging{node, s.Device()}
			since, was := l.since[key]
			switch {
			case !was:
				since = now
			case !since.IsZero() && now.Sub(since) >= slowPatience:
				if l.told.may(now, quota{key, hourlyLags}, quota{node, nodeLags}) {
					lags = append(lags, Lag{node, s.Device(), text})
				}
				since = time.Time{}
			}
			slow[key] = since
		}
	}
	l.since = slow
	return lags
}

// lag returns how slow a device is, of some with these clocks, or "".
func lag(s Sample, clocks []float64) string {
	switch {
	case !(s.Utilization >= workingPercent):
		return ""
	case s.Slowed != "":
		return "it is held down: " + s.Slowed
	case len(clocks) > 1 && s.ClockMHz < slowClock*clocks[len(clocks)/2]:
		return fmt.Sprintf("its clock is %.0f MHz, and the median of %d devices %.0f MHz", s.ClockMHz, len(clocks), clocks[len(clocks)/2])
	}
	return ""
}
