package fleet

import (
	"sync"
	"time"
)

// phases are the times of the phases of a fleet's members. Many members run the same phases: the history is asked for each
// once, and gets the first run that was done.
type phases struct {
	mu    sync.Mutex
	usual map[string]time.Duration // by Phase.Key
	ran   map[string]bool
}

// usualTime returns how long a phase usually takes, or 0.
func (p *phases) usualTime(c *Config, key string) time.Duration {
	if c.History == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	usual, asked := p.usual[key]
	if asked {
		return usual
	}
	usual, err := c.History.Usual(key)
	if err != nil {
		c.Reporter.Trouble("history", err)
	}
	if p.usual == nil {
		p.usual = map[string]time.Duration{}
	}
	p.usual[key] = usual
	return usual
}

// isFirst reports whether no run of the phase was done before.
func (p *phases) isFirst(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ran[key] {
		return false
	}
	if p.ran == nil {
		p.ran = map[string]bool{}
	}
	p.ran[key] = true
	return true
}
