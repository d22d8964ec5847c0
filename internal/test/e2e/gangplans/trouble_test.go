package gangplans

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// trouble has the plan's machines fail from now on, and returns a func that ends it. What was cut off is back then.
func (p *plan) trouble() (stop func()) {
	rng := rand.New(rand.NewPCG(p.seed, 2))
	many := pick(rng, 0, 0, 3, 12)
	if rate := pick(rng, 0, 0, 0.1); rate > 0 {
		p.cloud.Inject(sim.Random(p.seed, rate))
	}
	ctx, cancel := context.WithCancel(p.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for range many {
			if !sleep(ctx, time.Duration(rng.Int64N(int64(pick(rng, 20*time.Second, 4*time.Minute))))) {
				return
			}
			p.strike(ctx, rng, &wg)
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		p.cloud.Calm()
		p.cloud.SetOffers(p.offers...)
	})
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// xids are faults of each severity.
var xids = []string{"13, Graphics Exception", "63, Row Remapper", "94, Contained memory error", "79, GPU has fallen off the bus.", "48, DBE", "43, Reset Channel Verif Error"}

// strike lets one thing go wrong.
func (p *plan) strike(ctx context.Context, rng *rand.Rand, wg *sync.WaitGroup) {
	var running []string
	for _, m := range p.cloud.Machines("") {
		if m.State == driver.InstanceRunning {
			running = append(running, m.ID)
		}
	}
	if len(running) == 0 {
		return
	}
	p.mu.Lock()
	p.strikes = append(p.strikes, time.Now())
	p.mu.Unlock()
	id := running[rng.IntN(len(running))]
	while := time.Duration(rng.Int64N(int64(pick(rng, 10*time.Second, 2*time.Minute, 30*time.Minute))))
	kind := rng.IntN(11)
	if p.loud {
		fmt.Println(time.Now().Format("15:04:05.000"), "strike", kind, id, while)
	}
	switch kind {
	case 0:
		p.cloud.Preempt(id, 0)
	case 1:
		p.cloud.Preempt(id, time.Minute)
	case 2:
		p.cloud.Vanish(id)
	case 3:
		p.cloud.Stop(id)
	case 4:
		p.cloud.Fail(id)
	case 5:
		p.cutOff(id)
		p.cloud.Break(id)
		wg.Go(func() {
			sleep(ctx, while)
			p.cloud.Heal(id)
			p.healed()
		})
	case 6:
		for _, one := range running {
			p.cutOff(one)
		}
		p.cloud.Cut(true)
		wg.Go(func() {
			sleep(ctx, min(while, 10*time.Minute))
			p.cloud.Cut(false)
			p.healed()
		})
	case 7, 8:
		sim.Xid(p.cloud, id, rng.IntN(2), pick(rng, xids...))
	case 9:
		p.cloud.Outage(time.Now(), min(while, 5*time.Minute))
	case 10:
		p.cloud.SetOffers()
		long := pick(rng, time.Minute, 40*time.Minute)
		wg.Go(func() {
			sleep(ctx, long)
			p.cloud.SetOffers(p.offers...)
		})
	}
}

// cutOff notes that a machine cannot be reached from now on.
func (p *plan) cutOff(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken[id] = true
}

// healed notes that machines have come back, which counts as a strike: their processes may still have to be ended.
func (p *plan) healed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.strikes = append(p.strikes, time.Now())
}

// struck reports whether something has gone wrong since a time.
func (p *plan) struck(since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.strikes {
		if !at.Before(since) {
			return true
		}
	}
	return false
}

// left returns the processes of a training that run, except on machines that were cut off.
func (p *plan) left(g *gang) (left []string) {
	g.mu.Lock()
	id := g.id
	g.mu.Unlock()
	if id == "" {
		return nil
	}
	for _, m := range p.cloud.Machines("") {
		p.mu.Lock()
		broken := p.broken[m.ID]
		p.mu.Unlock()
		if broken {
			continue
		}
		for _, one := range p.others(sim.Command{ID: m.ID}, id+"-") {
			left = append(left, m.ID+": "+one)
		}
	}
	return left
}
