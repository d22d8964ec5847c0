package gputrain

import (
	"weak"

	"github.com/gputrain/gputrain/internal/ssh"
)

// ConnectionOf returns a function that reports whether anything still holds the connection to the
// node that has this rank now.
func ConnectionOf(c *Compute, rank int) (held func() bool) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	p := weak.Make[ssh.Client](c.p.fleet.Members()[rank].Node.Client())
	return func() bool { return p.Value() != nil }
}
