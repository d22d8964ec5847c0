package ssh

import (
	"sync"

	xssh "golang.org/x/crypto/ssh"
)

// A Pin is the key that a server showed at first contact, and to which it is
// held from then on. The zero value has met no server yet.
type Pin struct {
	mu  sync.Mutex
	key xssh.PublicKey
}

// Key returns the recorded key, or nil.
func (p *Pin) Key() xssh.PublicKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.key
}

// hold records the first key it is called with, and returns that.
func (p *Pin) hold(key xssh.PublicKey) xssh.PublicKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.key == nil {
		p.key = key
	}
	return p.key
}
