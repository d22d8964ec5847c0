package sim

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Call is one that a client made to the API.
type Call struct {
	// N counts from 1. Errors have it as their request ID: "sim-17".
	N    int
	Time time.Time
	Op   Op
	// Client is the program and driver that called, and Account whose account.
	Client, Account string
	// Pool is the pool that the call names, and On the machines, by name or ID.
	Pool string
	On   []string
	// Fault is what went wrong, or None.
	Fault Kind
	// Effect is what was done, and Answer what the caller was told.
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

// maxLog is how many calls and events a cloud remembers at least.
const maxLog = 1 << 16

// Log returns the calls so far, in the order in which they came.
func (c *Cloud) Log() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := make([]Call, len(c.log))
	for i, e := range c.log {
		calls[i] = *e
	}
	return calls
}

// An Event is a change in the life of a machine, network or key.
type Event struct {
	Time time.Time
	// ID and Name are the machine's, and Pool its pool.
	ID, Name, Pool string
	// What happened: "launched", "running", "notice", "preempted", "vanished",
	// "terminated" and so on.
	What string
	// By is the client that did it, "machine" where it was the machine itself, or
	// "cloud".
	By string
}

// String returns the event in one line.
func (e Event) String() string {
	return fmt.Sprintf("%s %s (%s) of %s %s by %s", e.Time.Format("15:04:05.000"), e.ID, e.Name, e.Pool, e.What, e.By)
}

// Audit returns what happened to the resources of a pool, or of all pools where
// poolID is empty.
func (c *Cloud) Audit(poolID string) []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	var events []Event
	for _, e := range c.events {
		if poolID == "" || e.Pool == poolID {
			events = append(events, e)
		}
	}
	return events
}

// Touched returns those events of a pool that other clients than the one that
// launched it have brought about. It is empty for a pool that nobody meddled with.
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

// note adds an event. c.mu is held.
func (c *Cloud) note(id, name, pool, what, by string) {
	if len(c.events) >= 2*maxLog {
		c.events = slices.Delete(c.events, 0, maxLog)
	}
	c.events = append(c.events, Event{Time: time.Now(), ID: id, Name: name, Pool: pool, What: what, By: by})
}

var process = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
})
