package vastai

import (
	"context"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// After a refusal an account is not asked again for refusalPause: the next hundred offers would
// be refused as well, at 4.5 seconds each.
const refusalPause = time.Minute

// A refusal is a refusal of the account, not of an offer.
type refusal struct {
	err error
	at  time.Time
}

// Create accepts an offer. If a failed rental has left an instance, Create returns it, and
// Start returns the error, so that the instance is ended.
func (p *provider) Create(ctx context.Context, order cloud.Order) (string, error) {
	if err := p.refused(); err != nil {
		return "", err
	}
	f, err := p.findOf(order)
	if err != nil {
		return "", err
	}
	in, err := p.request(ctx, order, f)
	if err != nil {
		return "", err
	}
	id, err := p.client.create(ctx, f.ask, in)
	p.mu.Lock()
	defer p.mu.Unlock()
	if kind := kindOf(err); kind == driver.ErrQuota || kind == driver.ErrBalance {
		p.refusal = refusal{err, time.Now()}
	}
	left, ok := leftover(err)
	if !ok {
		return id, err
	}
	if kindOf(err) == nil {
		err = &driver.Error{Kind: driver.ErrNoCapacity, Err: err} // another bid is higher
	}
	p.noteOf(left).failed = err
	return left, nil
}

// request returns the body of a create. It first makes the pool's network if nodes need one.
func (p *provider) request(ctx context.Context, order cloud.Order, f find) (createRequest, error) {
	login, err := loginFor(p, order)
	if err != nil {
		return createRequest{}, err
	}
	in := createRequest{
		ClientID: "me", Image: configFor(p, order.Spec).Image, Disk: f.diskGB, Label: labels.String(order.Tag),
		ImageLogin: login, RunType: "ssh_direct", TargetState: "running", CancelUnavail: true, Env: map[string]string{},
	}
	for _, port := range p.cfg.Ports {
		in.Env[fmt.Sprintf("-p %d:%[1]d", port)] = "1"
	}
	if in.OnStart, err = p.cfg.onStart(order.Pool, order.Node.Name, order.Tag.Created); err != nil {
		return in, err
	}
	if f.offer.Spot {
		in.Price = &f.bid
	}
	if (search{configFor(p, order.Spec), order.Spec, f.offer.Spot}).together() {
		name, err := p.network.make(ctx, order.Pool, f.cluster)
		if err != nil {
			return in, err
		}
		in.Env["-n "+name] = "1"
	}
	return in, nil
}

// refused returns the error of a refused account, until refusalPause after the refusal.
func (p *provider) refused() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusal.err == nil || time.Since(p.refusal.at) > refusalPause {
		return nil
	}
	return p.refusal.err
}

// Start makes no call. It records the instance, or fails if a failed rental has left it: such
// an instance is stopped, and its disk is billed.
func (p *provider) Start(_ context.Context, id string, order cloud.Order) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.noteOf(id)
	r.machine, r.launched = p.found[order.Offer.ID].machine, time.Now()
	if r.failed != nil {
		return r.failed
	}
	delete(p.found, order.Offer.ID) // it is taken now
	return nil
}

// Told describes an instance by the API's report, as the price may differ from the offer's.
func (p *provider) Told(ctx context.Context, id string) (cloud.Machine, bool) {
	m, err := p.Machine(ctx, id)
	return m, err == nil
}

// takeUp records an instance that another program has launched, as nodes of one pool must not
// share a machine or be in two clusters.
func (p *provider) takeUp(poolID, id string, on int64) {
	p.network.takeUp(poolID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.notes[id] == nil {
		p.notes[id] = &note{machine: on}
	}
}
