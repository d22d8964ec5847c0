package docker

import (
	"crypto/rand"
	"strings"
	"sync"
)

// A pin is the image that all nodes of a pool run. Its zero value has none yet.
type pin struct {
	mu    sync.Mutex
	set   bool
	image Image
}

// agree returns the pool's image, which the first one to call it has found. A digest may be added later.
func (p *pin) agree(found Image) Image {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.set {
		p.set, p.image = true, found
	}
	if p.image.Digest == "" && p.image.ID == found.ID {
		p.image.Digest = found.Digest
	}
	return p.image
}

func (p *pin) get() (Image, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.image, p.set
}

// newAttempt returns a name that no other step has.
func newAttempt() string { return strings.ToLower(rand.Text()) }
