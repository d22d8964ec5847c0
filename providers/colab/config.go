package colab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/sshkey"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/ssh"
)

// Config adopts the runtime of one Colab notebook. Open refuses the zero value, which names
// none.
type Config struct {
	// Endpoint is the runtime's endpoint, from the last output of the notebook's cell.
	Endpoint Endpoint
	// KeyFile is the private half of the cell's key; it may begin with "~/". If empty, it is
	// the SSH agent's keys or, without an agent, the first key of ~/.ssh that ssh(1) would use.
	KeyFile string
	// AcceptAnyGPU accepts the runtime whatever Spec.Accelerator is. False refuses another
	// accelerator.
	AcceptAnyGPU bool
	// KeepCache leaves ~/.gputrain/cache on the runtime, so that the next pool there sends less
	// through the tunnel. False removes it.
	KeepCache bool
}

const provider = "colab"

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "colab".
func (Config) Name() string { return provider }

// Open checks the configuration. It contacts nothing.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	host, err := c.Endpoint.host()
	if err != nil {
		return nil, err
	}
	id, err := c.Endpoint.fingerprint()
	if err != nil {
		return nil, err
	}
	host.KeyFile = c.KeyFile
	hosts, err := ssh.Config{Hosts: []ssh.Host{host}, KeepCache: c.KeepCache}.Open(ctx)
	if err != nil {
		return nil, ofColab(err)
	}
	return &colabDriver{Driver: hosts, id: id, addr: host.Addr, acceptAny: c.AcceptAnyGPU}, nil
}

// host returns the runtime as a host of providers/ssh.
func (e Endpoint) host() (ssh.Host, error) {
	switch {
	case e.Host == "":
		return ssh.Host{}, invalid(hintCell, "Endpoint.Host is empty")
	case strings.ContainsFunc(e.Host, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("/@[]", r) }),
		strings.HasPrefix(e.Host, "-"), strings.Contains(e.Host, ":") && net.ParseIP(e.Host) == nil:
		return ssh.Host{}, invalid(`write "0.tcp.ngrok.io", and the port into Endpoint.Port`, "Endpoint.Host %q is not only a host name", e.Host)
	case e.Port < 1 || e.Port > 65535:
		return ssh.Host{}, invalid(hintCell, "Endpoint.Port %d is not from 1 to 65535", e.Port)
	}
	user := e.User
	if user == "" {
		user = defaultUser
	}
	return ssh.Host{Addr: net.JoinHostPort(e.Host, strconv.Itoa(e.Port)), User: user, HostKey: e.HostKey}, nil
}

// fingerprint returns the fingerprint of the host key. No runtime is adopted without one: the
// address of a public tunnel may lead to a stranger's machine a moment later.
func (e Endpoint) fingerprint() (string, error) {
	key := strings.TrimSpace(e.HostKey)
	if key == "" {
		return "", invalid(hintCell, "Endpoint.HostKey is empty; only the host key distinguishes a runtime behind a public tunnel from a stranger's machine")
	}
	fingerprint, err := sshkey.Fingerprint(key)
	if err != nil {
		return "", invalid(hintCell, "Endpoint.HostKey %v", err)
	}
	return fingerprint, nil
}

const hintCell = "paste the whole output of BootstrapCell's cell in the notebook"

func invalid(hint, format string, args ...any) error {
	return &driver.Error{Provider: provider, Op: "open", Kind: driver.ErrInvalid, Err: fmt.Errorf(format, args...), Hint: hint}
}

// ofColab turns an error of providers/ssh into one of this provider. It omits the place among
// that one's hosts, as there is only one.
func ofColab(err error) error {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return err
	}
	ours := *e
	ours.Provider = provider
	if cause := errors.Unwrap(e.Err); cause != nil {
		ours.Err = cause
	}
	return &ours
}
