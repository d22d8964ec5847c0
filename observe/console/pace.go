package console

import (
	"time"

	"github.com/gputrain/gputrain/observe"
)

const (
	// paceTime is the time over which a pace is averaged.
	paceTime = 10 * time.Second
	// An ETA needs etaAfter, and a hundredth of the work.
	etaAfter = 3 * time.Second
	// What has not advanced for stalledAfter has stalled.
	stalledAfter = 15 * time.Second
)

// A pace is how fast a phase or a transfer advances, by what successive Runs say.
type pace struct {
	began, changed time.Time
	past           []advance // the newest is the last
	seen           int64     // by the look of this number
}

type advance struct {
	at   time.Time
	done int64
}

// paces are those of all that has a known end. The zero value knows none.
type paces struct {
	of    map[string]*pace
	looks int64
}

// look takes how far everything has come.
func (p *paces) look(run observe.Run) {
	if p.of == nil {
		p.of = map[string]*pace{}
	}
	p.looks++
	for _, ph := range run.Phases {
		if ph.State == "started" && ph.Progress.Total > 0 {
			p.add(phaseKey(ph), ph.Began, run.At, ph.Progress.Done)
		}
	}
	for _, t := range transfers(run) {
		p.add(t.key, t.began, run.At, t.bytes)
	}
	for key, one := range p.of {
		if one.seen != p.looks {
			delete(p.of, key)
		}
	}
}

func (p *paces) add(key string, began, at time.Time, done int64) {
	one := p.of[key]
	if one == nil || len(one.past) > 0 && done < one.past[len(one.past)-1].done { // it begins anew
		one = &pace{began: began, changed: at, past: []advance{{at, done}}}
		p.of[key] = one
	}
	one.seen = p.looks
	if newest := &one.past[len(one.past)-1]; newest.done != done {
		one.changed = at
		one.past = append(one.past, advance{at, done})
	}
	for len(one.past) > 2 && at.Sub(one.past[1].at) >= paceTime {
		one.past = one.past[1:]
	}
}

// eta returns how long the rest takes, and whether that can be said.
func (p *paces) eta(key string, done, total int64, now time.Time) (time.Duration, bool) {
	one := p.of[key]
	if one == nil || total <= 0 || now.Sub(one.began) < etaAfter || done*100 < total || p.isStalled(key, now) {
		return 0, false
	}
	first := one.past[0]
	moved, took := float64(done-first.done), now.Sub(first.at).Seconds()
	if moved <= 0 || took <= 0 {
		return 0, false
	}
	return seconds(float64(total-done) / moved * took), true
}

// isStalled reports whether it has not advanced for stalledAfter.
func (p *paces) isStalled(key string, now time.Time) bool {
	one := p.of[key]
	return one != nil && now.Sub(one.changed) > stalledAfter
}

// perSecond returns how much is done in a second, or 0.
func (p *paces) perSecond(key string, now time.Time) float64 {
	one := p.of[key]
	if one == nil {
		return 0
	}
	first, newest := one.past[0], one.past[len(one.past)-1]
	if took := now.Sub(first.at).Seconds(); took > 0 {
		return float64(newest.done-first.done) / took
	}
	return 0
}
