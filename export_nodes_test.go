package gputrain

import (
	"weak"

	"github.com/gputrain/gputrain/internal/ssh"
)

// ConnectionOf returns a function that reports whether anything still holds the connection
// to the node that has a rank now.
func ConnectionOf(c *Compute, rank int) (held func() bool) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	p := weak.Make[ssh.Client](c.p.nodes[rank].client)
	return func() bool { return p.Value() != nil }
}
