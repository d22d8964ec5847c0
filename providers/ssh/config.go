package ssh

import (
	"context"
	"errors"
	"fmt"

	"github.com/gputrain/gputrain/providers/driver"
)

// Config adopts hosts. Open refuses the zero value, which names none.
type Config struct {
	// Hosts are the machines, in the order in which nodes take them.
	Hosts []Host
	// Jump are the hosts on the way to all of them, in this order. Empty means, for each, those of its ConfigFile's ProxyJump.
	Jump []Host
	// KeepCache leaves ~/.gputrain/cache on the hosts for the next pool. False removes it.
	KeepCache bool
}

// A Host is one machine and the way to log in to it. What it leaves empty is as the user's ~/.ssh/config has it: see ConfigFile.
type Host struct {
	// Addr is a host name, an IP address or a name of ConfigFile, with ":port" unless that is 22 or in ConfigFile.
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
	// ConfigFile is a file in the form of ssh_config(5), which ssh(1) reads for this package (ssh -G): HostName, User, Port,
	// IdentityFile, IdentitiesOnly, UserKnownHostsFile and ProxyJump count, by Host, Match and Include. A ProxyCommand is refused
	// with [driver.ErrUnsupported]. Empty is ~/.ssh/config, if it is there, and "none" is no file. It may begin with "~/".
	ConfigFile string
	// Labels are labels by which tasks can choose the host: see gputrain.OnLabels.
	Labels map[string]string
}

const provider = "ssh"

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "ssh".
func (Config) Name() string { return provider }

// Open checks every host and contacts none, except as ConfigFile says (a Match exec, a CanonicalizeHostname). One error reports all faults.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
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
	jumps := false
	for i, h := range c.Hosts {
		r, err := h.route(ctx, c.Jump, mostJumps)
		if err != nil {
			faults = append(faults, hostError(i, h, err))
			continue
		}
		jumps = jumps || len(r.hops) > 1
		seen[r.name]++
		d.hosts = append(d.hosts, newHost(r, h.Labels, seen[r.name]))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if jumps {
		return newDialer(d), nil
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
