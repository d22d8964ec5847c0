package ssh

import (
	"sync"

	xssh "golang.org/x/crypto/ssh"
)

// A Pin records the key that a server showed at first contact and must show from then on. The zero value has recorded
// none.
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

// hold records the key if none is recorded, and returns the recorded one.
func (p *Pin) hold(key xssh.PublicKey) xssh.PublicKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.key == nil {
		p.key = key
	}
	return p.key
}
