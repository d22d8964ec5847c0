package node

import (
	"errors"
	"testing"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
)

// TestHostKeySources checks which servers a node connects to, and which may get the machine's password.
func TestHostKeySources(t *testing.T) {
	const key = "SHA256:uNiVztksCsDhcc0u9e8BrTd3bJC1y2Uf0oCQ8f9SUQE"
	for name, tt := range map[string]struct {
		endpoint     driver.Endpoint
		earlier      []string
		provider     driver.HostKeySource
		requireKnown bool
		source       driver.HostKeySource
		refused      bool
		password     bool
	}{
		"published":                         {driver.Endpoint{HostKeys: []string{key}}, nil, driver.HostKeyPublished, true, driver.HostKeyPublished, false, true},
		"published, and not told":           {driver.Endpoint{}, nil, driver.HostKeyPublished, false, driver.HostKeyFirstContact, true, false},
		"known to an earlier program":       {driver.Endpoint{}, []string{key}, driver.HostKeyInjected, false, driver.HostKeyInjected, false, true},
		"in a file":                         {driver.Endpoint{KnownHosts: "known_hosts"}, nil, driver.HostKeyConfigured, true, driver.HostKeyConfigured, false, true},
		"first contact":                     {driver.Endpoint{}, nil, driver.HostKeyFirstContact, false, driver.HostKeyFirstContact, false, false},
		"first contact that the user takes": {driver.Endpoint{PasswordAtFirstContact: true}, nil, driver.HostKeyFirstContact, false, driver.HostKeyFirstContact, false, true},
		"first contact, known key required": {driver.Endpoint{}, nil, driver.HostKeyFirstContact, true, driver.HostKeyFirstContact, true, false},
	} {
		var s server
		caps := driver.Capabilities{HostKeys: tt.provider}
		tt.endpoint.Password = "p"
		at, source := s.endpoint(tt.endpoint, caps, tt.earlier)
		err := refuseUnknown(source, caps, tt.requireKnown)
		if source != tt.source || (err != nil) != tt.refused || err != nil && !errors.Is(err, ssh.ErrHostKey) {
			t.Errorf("%s: the source is %v, and the error %v", name, source, err)
		}
		if got := sendsPassword(at, source); got != tt.password {
			t.Errorf("%s: the password is sent: %v", name, got)
		}
	}
}
