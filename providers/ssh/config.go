package ssh

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// Config adopts hosts. Open refuses the zero value, which names none.
type Config struct {
	// Hosts are the machines, in the order in which nodes take them.
	Hosts []Host
	// KeepCache leaves ~/.gputrain/cache on the hosts for the next pool. False removes it.
	KeepCache bool
}

// A Host is one machine and the way to log in to it.
type Host struct {
	// Addr is a host name or an IP address, with ":port" unless that is 22.
	Addr string
	// User is the user to log in as. If empty, it is the user of this program.
	User string
	// KeyFile is the private key to log in with; it may begin with "~/". With an SSH agent it may
	// have a passphrase, or be the public half, if the agent has the key. A certificate beside it,
	// KeyFile-cert.pub, is tried too. If empty, it is the agent's keys and then those of ~/.ssh, as
	// ssh(1) tries them.
	KeyFile string
	// HostKey is the host's public key, as a "SHA256:" fingerprint or as a line of its
	// /etc/ssh/ssh_host_*_key.pub. If it is empty, KnownHosts must name the host.
	HostKey string
	// KnownHosts is a file in known_hosts form; it may begin with "~/". It is read only if
	// HostKey is empty, with names as ssh(1) has them. If empty, it is ~/.ssh/known_hosts, with
	// the files that ssh(1) reads beside it. A line that cannot be read is a warning of the offer.
	KnownHosts string
	// Labels are labels by which tasks can choose the host: see gputrain.OnLabels.
	Labels map[string]string
}

const provider = "ssh"

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "ssh".
func (Config) Name() string { return provider }

// Open checks every host and contacts none. One error reports all faults.
func (c Config) Open(context.Context) (driver.Driver, error) {
	if len(c.Hosts) == 0 {
		return nil, &driver.Error{
			Provider: provider, Op: "open", Kind: driver.ErrInvalid,
			Err:  errors.New("no hosts"),
			Hint: `name at least one: ssh.Config{Hosts: []ssh.Host{{Addr: "gpu1.lab"}}}`,
		}
	}
	d := &sshDriver{keepCache: c.KeepCache}
	seen := map[string]int{}
	var faults []error
	for i, h := range c.Hosts {
		endpoint, warnings, err := h.endpoint()
		if err != nil {
			faults = append(faults, hostError(i, h, err))
			continue
		}
		seen[endpoint.Addr]++
		d.hosts = append(d.hosts, newHost(endpoint, h.Labels, warnings, seen[endpoint.Addr]))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return d, nil
}

// A fault is a mistake in a Host, with a hint.
type fault struct {
	kind error
	msg  string
	hint string
}

func (f *fault) Error() string { return f.msg }

func invalid(hint, format string, args ...any) error {
	return &fault{kind: driver.ErrInvalid, msg: fmt.Sprintf(format, args...), hint: hint}
}

func hostError(i int, h Host, err error) error {
	e := &driver.Error{Provider: provider, Op: "open", Kind: driver.ErrInvalid, Err: fmt.Errorf("host %d of Hosts, %q: %w", i, h.Addr, err)}
	if f, ok := errors.AsType[*fault](err); ok {
		e.Kind, e.Hint = f.kind, f.hint
	}
	return e
}

// Endpoint checks the host, with its key file and its known_hosts file, and returns the endpoint to log in to, with the
// defaults filled in. It contacts nothing. The error is a [*driver.Error] of the kind [driver.ErrInvalid] or
// [driver.ErrAuth], for a provider that reaches its machines through such a host.
func (h Host) Endpoint() (driver.Endpoint, error) {
	e, _, err := h.endpoint()
	if f, ok := errors.AsType[*fault](err); ok {
		return e, &driver.Error{Kind: f.kind, Err: f, Hint: f.hint}
	}
	return e, err
}

// endpoint checks the host and fills in its defaults.
func (h Host) endpoint() (e driver.Endpoint, warnings []string, err error) {
	addr, err := address(h.Addr)
	if err != nil {
		return driver.Endpoint{}, nil, err
	}
	e = driver.Endpoint{Addr: addr, User: h.User}
	if e.User == "" {
		if e.User, err = currentUser(); err != nil {
			return e, nil, err
		}
	}
	if e.KeyFile, e.KeyFiles, e.Agent, err = identity(h.KeyFile); err != nil {
		return e, nil, err
	}
	if key := strings.TrimSpace(h.HostKey); key != "" {
		e.HostKeys = []string{key}
		return e, nil, checkHostKey(key)
	}
	e.KnownHosts, warnings, err = knownHosts(h.KnownHosts)
	return e, warnings, err
}
