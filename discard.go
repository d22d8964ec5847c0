package gputrain

import "time"

const (
	// usualEnd is how long a provider may take to remove a machine whose end it has accepted,
	// and stopsWithin how long it may say meanwhile that the machine runs, before that is an
	// error.
	usualEnd, stopsWithin = 5 * time.Minute, time.Minute
	// firstLook is when it is first asked how far it is.
	firstLook = time.Second
)

// discard ends one machine now. What does not succeed is handed to failed, at once or, if the
// provider accepts the end and then is slower than usual, later.
func (p *pool) discard(id string, failed func(error)) {
	p.mu.Lock()
	m := p.machines[id]
	if m == nil {
		p.mu.Unlock()
		return
	}
	m.unwanted = true
	left := map[string]Resource{id: m.resource()}
	p.mu.Unlock()
	left, err := p.endMachines(p.ctx, left)
	switch {
	case err != nil:
		failed(err)
	case len(left) > 0:
		p.lives.Go(func() { p.awaitEnd(m, left, failed) })
	}
}

// awaitEnd waits until a machine is confirmed gone whose end the provider has accepted. It
// asks again meanwhile: an answer is no deed.
func (p *pool) awaitEnd(m *machine, left map[string]Resource, failed func(error)) {
	p.awaits(m, true)
	defer p.awaits(m, false)
	begun := now()
	for wait := firstLook; sleep(p.ctx, wait); wait = min(2*wait, 15*time.Second) {
		var err error
		if left, err = p.endMachines(p.ctx, left); len(left) == 0 || p.ctx.Err() != nil {
			return
		}
		if p.isLate(m, begun) {
			if err == nil {
				err = p.leaked(left, nil)
			}
			failed(err)
			return
		}
	}
}

// awaits notes whether the end of a machine is waited for: audits leave it alone then.
func (p *pool) awaits(m *machine, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.awaited = is
}

// isLate reports whether a machine whose end was asked for at a time ought to be gone. One
// that is late counts as billed all the same.
func (p *pool) isLate(m *machine, asked time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := m.isLate(asked)
	if late {
		m.accepted, m.unbilled = time.Time{}, time.Time{}
	}
	return late
}

// isLate reports whether a machine whose end was asked for at a time ought to be gone.
func (m *machine) isLate(asked time.Time) bool {
	limit := usualEnd
	if m.unbilled.IsZero() {
		limit = stopsWithin
	}
	return now().Sub(asked) >= limit
}

// told notes what the provider says of a machine whose end it has accepted: since then it is
// billed no more, or since it last ran. It reports whether that is news.
func (m *machine) told(s InstanceState) (news bool) {
	switch {
	case s == InstanceTerminated || m.accepted.IsZero():
		return false
	case s == InstanceRunning || s == InstancePending:
		m.unbilled, m.accepted = time.Time{}, now()
		return false
	}
	news = m.unbilled.IsZero()
	if news {
		m.unbilled = m.accepted
	}
	return news
}
