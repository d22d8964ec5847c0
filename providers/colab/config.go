package colab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/sshkey"
	"github.com/gputrain/gputrain/providers/ssh"
)

// Config adopts the runtime of one Colab notebook. Its zero value names none,
// which Open refuses.
type Config struct {
	// Endpoint is where the runtime is reached: what the notebook's cell has
	// printed last.
	Endpoint Endpoint
	// KeyFile is the private half of the key that the cell was given; it may begin
	// with "~/". Empty means the SSH agent's keys or, without an agent, the first
	// key of ~/.ssh that ssh(1) would use.
	KeyFile string
	// AcceptAnyGPU takes the runtime whatever Spec.Accelerator asks for. False
	// refuses one that has something else.
	AcceptAnyGPU bool
	// KeepCache leaves ~/.gputrain/cache on the runtime, so that the next pool there
	// sends less through the tunnel. False leaves the runtime as it was found.
	KeepCache bool
}

const provider = "colab"

// Name returns "colab".
func (Config) Name() string { return provider }

// Open checks the configuration and contacts nothing.
func (c Config) Open(ctx context.Context) (gputrain.Driver, error) {
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
	return &driver{Driver: hosts, id: id, addr: host.Addr, acceptAny: c.AcceptAnyGPU}, nil
}

// host is the runtime as providers/ssh adopts it.
func (e Endpoint) host() (ssh.Host, error) {
	switch {
	case e.Host == "":
		return ssh.Host{}, invalid(hintCell, "Endpoint.Host is empty")
	case strings.ContainsFunc(e.Host, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("/@[]", r) }),
		strings.HasPrefix(e.Host, "-"), strings.Contains(e.Host, ":") && net.ParseIP(e.Host) == nil:
		return ssh.Host{}, invalid(`write "0.tcp.ngrok.io", and the port into Endpoint.Port`, "Endpoint.Host %q is not a host's name alone", e.Host)
	case e.Port < 1 || e.Port > 65535:
		return ssh.Host{}, invalid(hintCell, "Endpoint.Port %d is not from 1 to 65535", e.Port)
	}
	user := e.User
	if user == "" {
		user = defaultUser
	}
	return ssh.Host{Addr: net.JoinHostPort(e.Host, strconv.Itoa(e.Port)), User: user, HostKey: e.HostKey}, nil
}

// fingerprint is that of the host key, without which no runtime is adopted: the
// address of a public tunnel may be a stranger's a moment later.
func (e Endpoint) fingerprint() (string, error) {
	key := strings.TrimSpace(e.HostKey)
	if key == "" {
		return "", invalid(hintCell, "Endpoint.HostKey is empty, and by nothing else a runtime behind a public tunnel can be told from a stranger's machine")
	}
	fingerprint, err := sshkey.Fingerprint(key)
	if err != nil {
		return "", invalid(hintCell, "Endpoint.HostKey %v", err)
	}
	return fingerprint, nil
}

const hintCell = "paste all of what the cell of BootstrapCell prints in the notebook"

func invalid(hint, format string, args ...any) error {
	return &gputrain.Error{Provider: provider, Op: "open", Kind: gputrain.ErrInvalid, Err: fmt.Errorf(format, args...), Hint: hint}
}

// ofColab makes an error of providers/ssh one of this provider's. What that says of
// the place among its hosts is left out: there is only one.
func ofColab(err error) error {
	e, ok := errors.AsType[*gputrain.Error](err)
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
