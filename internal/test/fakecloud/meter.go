package fakecloud

import (
	"math"
	"slices"
	"time"
)

// A Tariff is how a vendor bills the time of a machine, by the sheet of its facts. A [Meter] knows nothing else of that: it
// shares no code with what gputrain computes.
type Tariff struct {
	// Unit is the time of which each begun one is billed whole. Zero means a second.
	Unit time.Duration
	// Free are the states, in the vendor's words, in which a machine is not billed.
	Free []string
	// Refunds is true if the rest of the last unit is given back once the machine is not billed any more.
	Refunds bool
}

// A Metered is a machine as a [Meter] reads it.
type Metered struct {
	ID    string
	State string // in the vendor's word
	// HourlyUSD is the price of an hour, in every state that is not free. ExistsUSD is what is charged beside it, to the
	// second, in every state: its disk.
	HourlyUSD, ExistsUSD float64
}

// A Meter counts what a vendor charges for all machines of a fake. It reads them whenever a handler or a func of [Server.Do]
// has run.
type Meter struct {
	server *Server
	tariff Tariff
	read   func() []Metered
	usd    float64             // of what is over
	open   map[string]*running // by ID
}

// running is a machine that exists.
type running struct {
	made  time.Time
	since time.Time // it is billed since then; zero while it is not
	Metered
}

// Meter returns a meter of the server's fake. read returns the machines that exist now, and runs like a handler.
func (s *Server) Meter(tariff Tariff, read func() []Metered) *Meter {
	m := &Meter{server: s, tariff: tariff, read: read, open: map[string]*running{}}
	s.Do(func() { s.after = append(s.after, m.look) })
	return m
}

// USD returns what has been charged so far.
func (m *Meter) USD() (usd float64) {
	m.server.Do(func() {
		usd = m.usd
		for _, r := range m.open {
			usd += r.ExistsUSD * time.Since(r.made).Hours()
			if !r.since.IsZero() {
				usd += r.HourlyUSD * m.billed(r.since, false).Hours()
			}
		}
	})
	return usd
}

// look notes what has changed.
func (m *Meter) look() {
	now := m.read()
	for id, r := range m.open {
		if i := slices.IndexFunc(now, func(is Metered) bool { return is.ID == id }); i < 0 {
			m.stop(r)
			m.usd += r.ExistsUSD * time.Since(r.made).Hours()
			delete(m.open, id)
		}
	}
	for _, is := range now {
		r := m.open[is.ID]
		if r == nil {
			r = &running{made: time.Now()}
			m.open[is.ID] = r
		}
		if free := slices.Contains(m.tariff.Free, is.State); free {
			m.stop(r)
		} else if r.since.IsZero() {
			r.since = time.Now()
		}
		r.Metered = is
	}
}

// stop ends the time that is billed.
func (m *Meter) stop(r *running) {
	if !r.since.IsZero() {
		m.usd += r.HourlyUSD * m.billed(r.since, true).Hours()
		r.since = time.Time{}
	}
}

// billed returns the time that is billed from a time on, until now.
func (m *Meter) billed(since time.Time, over bool) time.Duration {
	unit := max(m.tariff.Unit, time.Second)
	if over && m.tariff.Refunds {
		unit = time.Second
	}
	units := math.Ceil(float64(time.Since(since)) / float64(unit))
	return time.Duration(max(units, 1)) * unit
}
