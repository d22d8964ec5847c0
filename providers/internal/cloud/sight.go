package cloud

import (
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A Sight is what a driver has seen of a machine. It judges whether a machine is gone that the cloud does not know: the
// cloud's answers may lag behind a create that it has answered with an ID, for longer than its lists usually do, and what
// counts as gone is asked about no more, and may be bought again. Its zero value is that of a machine of another program.
type Sight struct {
	made     time.Time            // when this driver's create was answered; zero if another program has made it
	seen     bool                 // the cloud has shown it, in the state last
	last     driver.InstanceState // one that was running, and is not known any more, is gone
	absent   time.Time            // since when the cloud does not know it, in spite of that
	asked    time.Time            // when a call to end it was answered first
	accepted bool                 // by acceptance, and not by "no such machine"
}

// MadeAt returns the sight of a machine that a create of this driver has made.
func MadeAt(t time.Time) Sight { return Sight{made: t} }

// Seen records that the cloud has shown the machine in a state.
func (s *Sight) Seen(state driver.InstanceState) { s.seen, s.last, s.absent = true, state, time.Time{} }

// IsSeen reports whether the cloud has ever shown the machine.
func (s *Sight) IsSeen() bool { return s.seen }

// Ended records the answer to a call to end the machine: it was accepted, or finds no such machine.
func (s *Sight) Ended(accepted bool) {
	if s.asked.IsZero() || accepted && !s.accepted {
		s.asked = time.Now()
	}
	s.accepted = s.accepted || accepted
}

// Accepted reports whether the cloud has accepted a call to end the machine.
func (s *Sight) Accepted() bool { return s.accepted }

// unseenFor is how long a machine that no answer has ever shown, though the cloud has made it here, is asked to end if
// these calls find none either.
const unseenFor = 60

// IsGone reports whether a machine that the cloud does not know is gone: by the capabilities of its cloud, for a driver
// that was opened at a time.
//
// One that the cloud has shown before is gone, or if it has never run, once it was absent for the lag of lists. One that
// was never shown may come as long as machines take to come up. Once its end was accepted it is gone after the lag.
func (s *Sight) IsGone(caps driver.Capabilities, opened time.Time) bool {
	now, lag := time.Now(), caps.ListLag
	switch {
	case s.seen && s.accepted:
		return true
	case !s.seen && s.accepted:
		return now.Sub(s.asked) >= lag
	case !s.seen && !s.made.IsZero() && !s.asked.IsZero():
		return now.Sub(s.asked) >= max(lag, unseenFor*Second)
	case !s.seen && !s.made.IsZero():
		limit := caps.ProvisionTimeout
		if limit == 0 {
			limit = driver.DefaultProvisionTimeout
		}
		return now.Sub(s.made) >= limit
	case s.IsNew(caps, opened):
		return false
	case s.seen && s.last == driver.InstancePending && s.asked.IsZero():
		if s.absent.IsZero() {
			s.absent = now
		}
		return now.Sub(s.absent) >= lag
	}
	return true
}

// IsNew reports whether the machine may be too new for the cloud's answers: made just now, by this driver or by a program
// that has just died.
func (s *Sight) IsNew(caps driver.Capabilities, opened time.Time) bool {
	since := opened
	if !s.made.IsZero() {
		since = s.made
	}
	return time.Since(since) < caps.ListLag
}

// Missing returns the state of a machine that the cloud does not know and that is not gone.
func (s *Sight) Missing() driver.InstanceState {
	if s.made.IsZero() {
		return driver.InstanceUnknown
	}
	return driver.InstancePending
}
