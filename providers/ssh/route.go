package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/gputrain/gputrain/internal/sshconfig"
	"github.com/gputrain/gputrain/providers/driver"
)

// mostJumps bounds how many hosts a ProxyJump leads through: one may name another, or itself.
const mostJumps = 16

// A route is the way to a host.
type route struct {
	name     string            // host:port as the user writes it
	hops     []driver.Endpoint //secretvet:ignore hosts have no password
	warnings []string          // of the host's offer
}

// Route checks the host, with its key file, its known_hosts file and its ConfigFile, and returns the endpoints to log in to, each
// through the one before it, with the defaults filled in. The last is the host's own. jump are those on the way, instead of a
// ProxyJump's. It contacts nothing. The error is a [*driver.Error] of the kind [driver.ErrInvalid], [driver.ErrAuth] or
// [driver.ErrUnsupported], for a provider that reaches its machines through such a host.
func (h Host) Route(jump ...Host) ([]driver.Endpoint, error) {
	r, err := h.route(context.Background(), jump, mostJumps)
	if f, ok := errors.AsType[*fault](err); ok {
		return nil, &driver.Error{Kind: f.kind, Err: err, Hint: f.hint}
	}
	return r.hops, err
}

// route returns the way to the host, through these others or, if jump is empty, through those that ConfigFile names: at most so many.
func (h Host) route(ctx context.Context, jump []Host, most int) (r route, err error) {
	r, configured, err := h.own(ctx)
	if err != nil {
		return r, err
	}
	if len(jump) == 0 {
		if configured.ProxyCommand != "" {
			return r, &fault{kind: driver.ErrUnsupported, msg: fmt.Sprintf("ConfigFile has a ProxyCommand for %s, which only ssh(1) runs", h.Addr),
				hint: "name the hosts on the way in Jump, or by ProxyJump; " + hintNone}
		}
		jump = h.proxies(configured.Jump)
	}
	on, err := through(ctx, jump, most)
	r.hops = append(on, r.hops...)
	return r, err
}

// own returns the host's own endpoint, as if there were none on the way, and what ConfigFile says.
func (h Host) own(ctx context.Context) (r route, configured sshconfig.Answer, err error) {
	host, port, err := address(h.Addr)
	if err != nil {
		return r, configured, err
	}
	configured, warnings, err := h.configured(ctx, host, port)
	if err != nil {
		return r, configured, err
	}
	if configured.HostName != "" {
		if configured.HostName, _, err = address(configured.HostName); err != nil {
			return r, configured, fmt.Errorf("ConfigFile's HostName: %w", err)
		}
	}
	r = route{name: net.JoinHostPort(host, cmp.Or(port, "22")), warnings: warnings}
	e := driver.Endpoint{
		Addr: net.JoinHostPort(cmp.Or(configured.HostName, host), cmp.Or(port, configured.Port, "22")), User: cmp.Or(h.User, configured.User),
	}
	if e.User == "" {
		if e.User, err = currentUser(); err != nil {
			return r, configured, err
		}
	}
	if e.KeyFile, e.KeyFiles, e.Agent, err = h.identity(configured); err != nil {
		return r, configured, err
	}
	if key := strings.TrimSpace(h.HostKey); key != "" {
		e.HostKeys, err = []string{key}, checkHostKey(key)
	} else {
		e.KnownHosts, warnings, err = knownHosts(h.knownHostsFile(configured))
		r.warnings = append(r.warnings, warnings...)
	}
	r.hops = []driver.Endpoint{e}
	return r, configured, err
}

// noConfig is a ConfigFile that stands for none, as in ssh -F none.
const noConfig = "none"

const hintNone = `ConfigFile: "none" reads none`

// configured returns what ConfigFile says of the host.
func (h Host) configured(ctx context.Context, host, port string) (a sshconfig.Answer, warnings []string, err error) {
	if h.ConfigFile == noConfig {
		return a, nil, nil
	}
	file, err := expand(cmp.Or(h.ConfigFile, "~/.ssh/config"))
	if err != nil {
		return a, nil, err
	}
	if _, err := os.Stat(file); err != nil {
		if h.ConfigFile == "" {
			return a, nil, nil
		}
		return a, nil, unreadable("ConfigFile", file, err, "name a file in the form of ssh_config(5)")
	}
	a, err = sshconfig.Ask(ctx, file, sshconfig.Question{Host: host, User: h.User, Port: port})
	switch {
	case errors.Is(err, sshconfig.ErrNoSSH) && h.ConfigFile == "":
		return a, []string{file + " is not read: " + err.Error()}, nil
	case err != nil:
		return a, nil, invalid(hintNone, "ConfigFile: %v", err)
	}
	for _, setting := range a.Unused {
		warnings = append(warnings, fmt.Sprintf("%s of %s is not used", setting, file))
	}
	return a, warnings, nil
}

// identity chooses the credentials: KeyFile, those of ConfigFile or, if neither names any, what ssh(1) has.
func (h Host) identity(configured sshconfig.Answer) (file string, others []string, agent bool, err error) {
	if h.KeyFile != "" || configured.IdentityFiles == nil {
		file, others, agent, err = identity(h.KeyFile)
		return file, others, agent && !configured.NoAgent, err
	}
	hasAgent := os.Getenv("SSH_AUTH_SOCK") != "" && !configured.NoAgent
	var unusable error
	for _, f := range configured.IdentityFiles {
		if err := checkKeyFile(f, hasAgent); err != nil {
			unusable = cmp.Or(unusable, err)
			continue
		}
		others = append(others, f)
	}
	agent = hasAgent && !configured.IdentitiesOnly
	if len(others) == 0 && !agent {
		return "", nil, false, unusable
	}
	return "", others, agent, nil
}

// knownHostsFile returns KnownHosts, or the first file of ConfigFile's that is there.
func (h Host) knownHostsFile(configured sshconfig.Answer) string {
	if h.KnownHosts != "" || configured.KnownHosts == nil {
		return h.KnownHosts
	}
	for _, f := range configured.KnownHosts {
		if _, err := os.Stat(f); err == nil {
			return f
		}
	}
	return configured.KnownHosts[0]
}

// proxies returns the hosts of a ProxyJump.
func (h Host) proxies(configured []string) (all []Host) {
	for _, j := range configured {
		q := sshconfig.SplitJump(j)
		addr := q.Host
		if q.Port != "" {
			addr = net.JoinHostPort(q.Host, q.Port)
		}
		all = append(all, Host{Addr: addr, User: q.User, ConfigFile: h.ConfigFile})
	}
	return all
}

// through returns the way through hosts, and at most so many. As with ssh(1), only the first may have a ProxyJump of its own.
func through(ctx context.Context, jump []Host, most int) (all []driver.Endpoint, err error) {
	if len(jump) > most {
		return nil, invalid("look for a ProxyJump that leads to itself", "there are more than %d hosts on the way", mostJumps)
	}
	for i, j := range jump {
		var r route
		if i == 0 {
			r, err = j.route(ctx, nil, most-len(jump))
		} else {
			r, _, err = j.own(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("on the way, %q: %w", j.Addr, err)
		}
		all = append(all, r.hops...)
	}
	return all, nil
}
