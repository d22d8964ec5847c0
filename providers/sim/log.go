package sim

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Call is one call of a client to the API.
type Call struct {
	// N counts from 1. Errors have it as their request ID: "sim-17".
	N    int
	Time time.Time
	Op   Op
	// Client is the program and driver that called. Account is the account that it used.
	Client, Account string
	// Pool is the pool in the call, and On the machines, by name or ID.
	Pool string
	On   []string
	// Fault is the fault of the call, or None.
	Fault Kind
	// Effect is what the call did. Answer is the caller's answer.
	Effect, Answer string
}

// String returns the call in one line.
func (c Call) String() string {
	s := fmt.Sprintf("%s #%d %s", c.Time.Format("15:04:05.000"), c.N, c.Op)
	if len(c.On) > 0 {
		s += " " + strings.Join(c.On, ",")
	}
	if c.Pool != "" {
		s += " of " + c.Pool
	}
	if c.Fault != None {
		s += " [" + c.Fault.String() + "]"
	}
	if c.Effect != "" {
		s += ": " + c.Effect
	}
	return s + " -> " + c.Answer
}

// A cloud keeps at least the last maxLog calls and events.
const maxLog = 1 << 16

// A record holds the calls and events of a cloud. The cloud's mu guards it.
type record struct {
	calls  int
	log    []*Call
	events []Event
}

// call numbers and stores a call.
func (r *record) call(c *Call) {
	if len(r.log) >= 2*maxLog {
		r.log = slices.Delete(r.log, 0, maxLog)
	}
	r.calls++
	c.N = r.calls
	r.log = append(r.log, c)
}

// event stores an event.
func (r *record) event(id, name, pool, what, by string) {
	if len(r.events) >= 2*maxLog {
		r.events = slices.Delete(r.events, 0, maxLog)
	}
	r.events = append(r.events, Event{Time: time.Now(), ID: id, Name: name, Pool: pool, What: what, By: by})
}

// Log returns the calls so far, in the order of their arrival.
func (c *Cloud) Log() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := make([]Call, len(c.record.log))
	for i, e := range c.record.log {
		calls[i] = *e
	}
	return calls
}

// An Event is a change in the life of a machine, network or key.
type Event struct {
	Time time.Time
	// ID and Name are the machine's, and Pool its pool.
	ID, Name, Pool string
	// What is the change: "launched", "running", "notice", "preempted", "vanished",
	// "terminated" and so on.
	What string
	// By is the client that caused it, "machine" for the machine itself, or "cloud".
	By string
}

// String returns the event in one line.
func (e Event) String() string {
	return fmt.Sprintf("%s %s (%s) of %s %s by %s", e.Time.Format("15:04:05.000"), e.ID, e.Name, e.Pool, e.What, e.By)
}

// Audit returns the events of a pool, or of all pools if poolID is empty.
func (c *Cloud) Audit(poolID string) []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	var events []Event
	for _, e := range c.record.events {
		if poolID == "" || e.Pool == poolID {
			events = append(events, e)
		}
	}
	return events
}

// Touched returns the events of a pool's machines that other clients than their launcher have
// caused. It is empty for a pool that only its own program has changed.
func (c *Cloud) Touched(poolID string) []Event {
	owner := ""
	var others []Event
	for _, e := range c.Audit(poolID) {
		switch {
		case e.By == byCloud || e.By == byMachine:
		case owner == "":
			owner = e.By
		case e.By != owner:
			others = append(others, e)
		}
	}
	return others
}

const (
	byCloud   = "cloud"
	byMachine = "machine"
)

var process = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
})
