package node

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
)

// kindOf returns the kind of an error of a connection.
func kindOf(err error) error {
	switch {
	case errors.Is(err, ssh.ErrHostKey):
		return driver.ErrHostKey
	case errors.Is(err, ssh.ErrAuth):
		return driver.ErrAuth
	case errors.Is(err, supervisor.ErrFenced):
		return driver.ErrFenced
	}
	return driver.ErrUnavailable
}

// explain returns the error of a machine that could not be reached, with what the provider
// reports of it.
func (n *Node) explain(ctx context.Context, op string, err error) error {
	if n.ctx.Err() != nil {
		return context.Cause(n.ctx)
	}
	inst := n.Instance()
	e := &driver.Error{Provider: n.Provider(), Op: op + " " + n.title(), Kind: kindOf(err), Err: err}
	e.Hint = n.advice(e.Kind)
	if at, source := n.server.endpoint(inst.SSH, n.Capabilities(), n.before().HostKeys); errors.Is(err, ssh.ErrAuth) && at.Password != "" && !sendsPassword(at, source) {
		e.Err = fmt.Errorf("%w (%w)", err, errWithheld)
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		e.Err = fmt.Errorf("%w: %w", cause, err)
	}
	found, descErr := n.settings.Describer.describe(n.ctx, inst.ID)
	switch {
	case descErr == nil && found.State != driver.InstanceRunning:
		e.Err = fmt.Errorf("%w (the provider reports that the machine is %v%s)", e.Err, found.State, afterColon(found.StateReason))
	case descErr != nil && n.ctx.Err() == nil:
		e.Err = fmt.Errorf("%w (the provider: %v)", e.Err, descErr)
	}
	return e
}

// advice returns what to do about a machine that cannot be reached, or "".
func (n *Node) advice(kind error) string {
	inst := n.Instance()
	if d, ok := n.settings.Driver.(driver.Adviser); ok {
		if advice := d.Advise(inst, kind); advice != "" {
			return advice
		}
	}
	if client := n.Client(); !n.Capabilities().Adopts || client != nil && client.Generation() > 0 {
		return ""
	}
	host, port, err := net.SplitHostPort(inst.SSH.Addr)
	if err != nil {
		return ""
	}
	try := fmt.Sprintf("ssh -p %s %s@%s", port, inst.SSH.User, host)
	switch kind {
	case driver.ErrAuth:
		return fmt.Sprintf("set the host's User and KeyFile to what %q lets in, or add the key to ~/.ssh/authorized_keys there", try)
	case driver.ErrUnavailable:
		return fmt.Sprintf("see whether %q gets there from here: the host may be off or behind a firewall, its SSH server stopped or at another port", try)
	}
	return ""
}

// afterColon returns a colon and a reason, or nothing if there is none.
func afterColon(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
