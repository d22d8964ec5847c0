package providertest

import (
	"crypto/rand"
	"slices"
	"sync"

	"github.com/gputrain/gputrain/providers/driver"
	"go.uber.org/goleak"
)

const leavesNoGoroutine = "no goroutine is left"

func parallelChecks() []check {
	return []check{
		{"parallel use", nil, parallelUse},
		{leavesNoGoroutine, nil, goroutines},
	}
}

// If the tests run under the race detector, it checks this too.
func parallelUse(c *trial) {
	p := c.prepared()
	wanted, offers := nodes(p.requests(4))
	var all []string
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, node := range wanted {
		wg.Go(func() {
			got, err := p.Launch(c.Context(), driver.Launch{
				Pool: p.now(), Offer: offers[node.Name], Query: c.h.Spec.Query(), Token: rand.Text(), Nodes: []driver.NodeRequest{node},
			})
			if err != nil || len(got) != 1 || got[0].Name != node.Name {
				c.Errorf("Driver.Launch, several at the same time: %+v, %v", got, err)
				return
			}
			mu.Lock()
			all = append(all, got[0].ID)
			mu.Unlock()
			if now, err := p.Describe(c.Context(), got[0].ID); err != nil || len(now) != 1 || now[0].ID != got[0].ID {
				c.Errorf("Driver.Describe, several at the same time: %+v, %v", now, err)
			}
		})
		wg.Go(func() {
			if _, err := p.List(c.Context(), ""); err != nil {
				c.Errorf("Driver.List, several at the same time: %v", err)
			}
			for _, err := range p.Offers(c.Context(), c.h.Spec.Query()) {
				if err != nil {
					c.Errorf("Driver.Offers, several at the same time: %v", err)
				}
			}
			_ = p.Capabilities()
		})
	}
	wg.Wait()
	slices.Sort(all)
	if len(slices.Compact(slices.Clone(all))) != len(all) {
		c.Errorf("Driver.Launch, several at the same time, returns one machine for two nodes: %q", all)
	}
	if c.h.Account != nil {
		p.holds("they were launched at the same time", all...)
	}
	for _, id := range all {
		wg.Go(func() {
			if err := p.Terminate(c.Context(), id); err != nil {
				c.Errorf("Driver.Terminate, several at the same time: %v", err)
			}
		})
	}
	wg.Wait()
	p.gone(all...)
}

func goroutines(c *trial) {
	before := goleak.IgnoreCurrent()
	d, err := c.h.Provider.Open(c.Context())
	if err != nil {
		c.Fatalf("Provider.Open: %v", err)
	}
	p := &pool{trial: c, Driver: d, caps: d.Capabilities(), info: c.newInfo()}
	if err := p.Prepare(c.Context(), p.now()); err != nil {
		c.Errorf("Driver.Prepare: %v", err)
	}
	in := p.running(p.launch(1))[0]
	for range p.Offers(c.Context(), c.h.Spec.Query()) {
		break
	}
	if err := p.reach(in); err != nil {
		c.Logf("%s: %v", in.ID, err)
	}
	p.end()
	p.gone(in.ID)
	if err := p.Close(); err != nil {
		c.Errorf("Driver.Close: %v", err)
	}
	if err := c.eventually(eventTimeout, func() error { return goleak.Find(before) }); err != nil {
		c.Errorf("Driver.Close releases what the driver itself holds; left: %v", err)
	}
}
