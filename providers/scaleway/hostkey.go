package scaleway

import (
	"context"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/sshkey"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// fingerprintsKey is the user data in which Scaleway's images publish the fingerprints of a
// server's host keys at boot.
const fingerprintsKey = "ssh-host-fingerprints"

// fingerprintsWait bounds the wait for them on a running server.
func fingerprintsWait() time.Duration { return 60 * cloud.Second }

// hostKeys caches the keys that servers have published.
type hostKeys struct {
	mu    sync.Mutex
	known map[string]published
}

type published struct {
	since        time.Time // when the server was first seen running
	fingerprints []string
}

// ofServer returns the keys that a running server may show: the key that it got, and the
// published one if that differs. ready is false while the server may still publish.
func (h *hostKeys) ofServer(ctx context.Context, c *client, zone, id, injected string) (keys []string, ready bool, err error) {
	h.mu.Lock()
	p, again := h.known[id]
	h.mu.Unlock()
	if !again {
		p.since = time.Now()
	}
	if p.fingerprints == nil {
		text, err := c.userData(ctx, zone, id, fingerprintsKey)
		if err != nil && !isGone(err) {
			return nil, false, err
		}
		p.fingerprints = fingerprints(text)
		h.mu.Lock()
		h.known[id] = p
		h.mu.Unlock()
	}
	own, err := sshkey.Fingerprint(injected)
	switch {
	case err != nil: // a user has removed the tag
		return p.fingerprints, p.fingerprints != nil, nil
	case p.fingerprints == nil:
		return []string{injected}, time.Since(p.since) >= fingerprintsWait(), nil
	case slices.Contains(p.fingerprints, own):
		return []string{injected}, true, nil
	}
	return append([]string{injected}, p.fingerprints...), true, nil
}

// forget removes what is known of a server.
func (h *hostKeys) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, id)
}

var fingerprintForm = regexp.MustCompile(`SHA256:[A-Za-z0-9+/]+`)

// fingerprints returns the SHA-256 fingerprints in a text. Its form is not documented; a line
// is said to look like "256 SHA256:… root@host (ED25519)".
func fingerprints(text string) (all []string) {
	for _, word := range fingerprintForm.FindAllString(text, -1) {
		if f, err := sshkey.Fingerprint(word); err == nil && !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}
