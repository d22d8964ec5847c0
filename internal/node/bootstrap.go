package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
)

// bootstrap prepares the node as the settings' image asks.
func (n *Node) bootstrap() error {
	if err := n.settings.Given.Missing; err != nil {
		return err
	}
	phases := n.settings.Output.Phases(fmt.Sprintf("node %d", n.owner.Rank()), n.owner.Rank())
	var base bootstrap.Base
	send := func(ctx context.Context, entries []transfer.Entry) (transfer.Stats, error) {
		progress, end := n.owner.Sending()
		stats, err := n.Files().Sync(ctx, entries, progress)
		end(err)
		return stats, err
	}
	err := bootstrap.Run(n.ctx, n.Supervisor(), send, n.settings.Image, bootstrap.Options{
		Secrets: n.settings.Given.Secrets,
		Upload: func(ctx context.Context, local, remote string) error {
			return n.Files().Upload(ctx, local, remote, transfer.Options{})
		},
		Output: func(phase string) io.Writer { return progressing(n, phase, phases.Writer(phase)) },
		Base:   func(b bootstrap.Base) { base = b },
		Event:  n.owner.Phase,
		Baked:  n.baked(),
		Within: n.Capabilities().BootstrapTimeout,
	})
	phases.Flush()
	if err != nil {
		return err
	}
	if err := listAgain(n); err != nil {
		return err
	}
	only := n.usable()
	if base = restricted(base, only); n.sharing.wanted() {
		base = n.sharing.base(base)
	}
	if only != nil || n.sharing.wanted() {
		n.Supervisor().SetBase(base.Env, base.Path)
	}
	n.owner.Bootstrapped(base)
	return nil
}

// restricted has programs see no other accelerators than those of the UUIDs, unless the image says which. Nil means all.
func restricted(b bootstrap.Base, only []string) bootstrap.Base {
	if only == nil || b.Env[cudaVisible] != "" {
		return b
	}
	b.Env = maps.Clone(b.Env)
	if b.Env == nil {
		b.Env = map[string]string{}
	}
	b.Env[cudaVisible] = strings.Join(only, ",")
	return b
}

// progressing returns a writer for a phase's output, which also has the owner told how far the phase has come.
func progressing(n *Node, phase string, output io.Writer) io.Writer {
	return io.MultiWriter(bootstrap.Watch(func(p bootstrap.Progress) { n.owner.Progressed(phase, p) }), output)
}

// listAgain lists NVIDIA's devices again after commands of the user's, which may have divided them. A list that fails
// changes nothing. The error is that of a node that is lost.
func listAgain(n *Node) error {
	facts := n.Facts()
	if len(n.settings.Image.Setup) == 0 || !facts.Tools["nvidia-smi"] {
		return nil
	}
	ctx, cancel := context.WithTimeout(n.ctx, verifyTimeout)
	defer cancel()
	out, err := repeat(ctx, n.Client(), n.Commands(), "nvidia-smi -L", "")
	if _, answered := errors.AsType[*ssh.ExitError](err); answered || err != nil && ctx.Err() != nil && n.ctx.Err() == nil {
		return nil
	} else if err != nil {
		return err
	}
	facts.NVIDIA = strings.Split(out, "\n")
	findDevices(n, facts)
	return nil
}

// findDevices notes a node's devices, by its facts.
func findDevices(n *Node, facts supervisor.Facts) {
	if only := n.usable(); only != nil {
		facts.Visible = only
	}
	d := devicesOf(n.settings.Image.Env, facts)
	d.shares = n.settings.GPUSharing
	n.setDevices(d)
}
