package steps

import (
	"sync"
	"time"
)

// paceEvery is the least time between two steps that a Pace passes on.
const paceEvery = time.Second

// A Pace passes steps on: the newest one a second after the one before, and the last one before End returns.
type Pace struct {
	// Pass is called by one goroutine at a time. It must not block, nor call the pace.
	Pass func(Step)

	mu    sync.Mutex
	last  Step
	fresh bool // last was not passed on
	at    time.Time
	timer *time.Timer // passes last on; nil if nothing came too soon yet
	over  bool
}

// Step passes a step on, or later a newer one.
func (p *Pace) Step(s Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	wait := paceEvery - time.Since(p.at)
	soon := p.fresh
	p.last, p.fresh = s, true
	switch {
	case wait <= 0:
		p.passOn()
	case soon:
	case p.timer == nil:
		p.timer = time.AfterFunc(wait, p.due)
	default:
		p.timer.Reset(wait)
	}
}

func (p *Pace) due() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passOn()
}

// passOn passes on the newest step, if it was not. p.mu is held.
func (p *Pace) passOn() {
	if !p.fresh || p.over {
		return
	}
	p.fresh, p.at = false, time.Now()
	p.Pass(p.last)
}

// End passes on the last step. Nothing is passed on later.
func (p *Pace) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passOn()
	p.over = true
	if p.timer != nil {
		p.timer.Stop()
	}
}
