package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
	xssh "golang.org/x/crypto/ssh"
)

// connect waits for the machine and for its SSH server, and takes the machine over.
func (n *Node) connect() error {
	limit := cmp.Or(n.settings.ProvisionTimeout, n.Capabilities().ProvisionTimeout, driver.DefaultProvisionTimeout)
	ctx, cancel := context.WithTimeoutCause(n.ctx, limit, fmt.Errorf("not up within %v", limit))
	defer cancel()
	inst, err := n.startup.awaitEndpoint(ctx)
	if err != nil {
		return err
	}
	if err := n.dial(inst); err != nil {
		return &driver.Error{Provider: n.Provider(), Op: "connect to " + n.title(), Kind: kindOf(err), Err: err}
	}
	if err := n.Client().Connect(ctx); err != nil {
		return n.explain(ctx, "connect", err)
	}
	if n.passwordSent.Load() {
		if err := authorize(ctx, n.Client(), n.settings.Login.Public); err != nil {
			return n.explain(ctx, "put the pool's key on", err)
		}
	}
	n.queryEarly()
	if err := n.takeOver(ctx, inst); err != nil {
		return n.explain(ctx, "take over", err)
	}
	if err := n.addKeys(ctx, n.Client()); err != nil {
		return n.explain(ctx, "add Spec.AuthorizedKeys to ~/.ssh/authorized_keys on", err)
	}
	if err := n.findAddress(ctx); err != nil {
		return err
	}
	return n.probe(ctx)
}

// takeOver starts the supervisor on the machine, or attaches to the one that an earlier program
// has started.
func (n *Node) takeOver(ctx context.Context, inst driver.Instance) error {
	caps, before := n.Capabilities(), n.before()
	cfg := n.supervision()
	cfg.SelfDestruct, cfg.Disk, cfg.Disposable = scriptsOf(n.settings.Driver, inst).SelfDestruct, queryOf(n).DiskGiB > 0, !caps.Adopts
	if cfg.SelfDestruct == "" && caps.Adopts && !caps.KeepCache {
		cfg.SelfDestruct = dropCacheAtLapse
	}
	switch {
	case caps.Adopts:
		cfg.SelfDestruct = n.removeKeysAtLapse(cfg.SelfDestruct)
	case cfg.SelfDestruct == "":
		cfg.SelfDestruct = supervisor.Keep
	}
	if !n.settings.Expires.IsZero() {
		cfg.TTL = max(time.Until(n.settings.Expires), time.Second)
	}
	var s *supervisor.Node
	var err error
	if before.Folder != "" {
		s, n.found, err = supervisor.Attach(ctx, n.Client(), cfg)
	} else {
		s, err = supervisor.Start(ctx, n.Client(), cfg)
	}
	if err != nil {
		return err
	}
	facts := n.supervise(s)
	shown := ""
	if key := n.server.pin.Key(); key != nil {
		shown = strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key)))
	}
	n.owner.Leased(facts.Root, shown)
	findDevices(n, facts)
	if before.Folder != "" && n.container.wanted() {
		return n.container.find(ctx)
	}
	return nil
}

// supervision returns the configuration of the node's supervisor.
func (n *Node) supervision() supervisor.Config {
	return supervisor.Config{
		PoolID: n.settings.Pool, Name: n.Name(), Lease: n.settings.Lease, Generation: n.settings.Generation, Root: n.before().Folder,
		Renewed: func() { n.owner.Renewed() },
	}
}

// probe runs the driver's probe on the machine and hands it the output.
func (n *Node) probe(ctx context.Context) error {
	scripts := n.scripts()
	if scripts.Probe == "" {
		return nil
	}
	out, _, err := n.queries.answer(ctx, n.Client(), scripts.Probe)
	if err != nil {
		return n.explain(ctx, "probe", err)
	}
	has, err := scripts.Probed(queryOf(n), out)
	if err != nil {
		return err
	}
	n.update(func(inst *driver.Instance) { inst.Offer.Accelerator = has })
	return nil
}

// findAddress asks the machine for the address by which other nodes reach it, if the driver has text for that. The
// address of a rented machine, whoever reports it, is refused if no machine has it: the others would send to their own
// link, or to a cloud's metadata, what is meant for it.
func (n *Node) findAddress(ctx context.Context) error {
	refused := func(format string, args ...any) error {
		return &driver.Error{Provider: n.Provider(), Op: "find the private address of " + n.Name(), Kind: driver.ErrUnsupported, Err: fmt.Errorf(format, args...)}
	}
	if text := n.scripts().FindAddress; text != "" {
		out, _, err := n.queries.answer(ctx, n.Client(), text)
		if err != nil {
			return n.explain(ctx, "find the private address of", err)
		}
		if addr := strings.TrimSpace(out); addr != "" {
			if net.ParseIP(addr) == nil {
				return refused("it reports %.100q, which is no IP address", addr)
			}
			n.update(func(inst *driver.Instance) { inst.PrivateAddr = addr })
		}
	}
	if addr, ok := localnet.Parse(n.Addr()); ok && !n.Capabilities().Adopts {
		if kind := localnet.Reserved(addr); kind != "" {
			return refused("%.100q is said to be its address, and is an address %s", n.Addr(), kind)
		}
	}
	return nil
}

// reach connects to a machine on which an earlier program has had a node, without Run, to
// clean it. The error is [supervisor.ErrLapsed] or [supervisor.ErrRestarted] if nothing of
// the pool runs there any more.
func (n *Node) reach(ctx context.Context) error {
	id := n.Instance().ID
	found, err := n.settings.Driver.Describe(ctx, id)
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0].SSH.Addr == "" {
		return &driver.Error{Provider: n.Provider(), Op: "reach " + id, Kind: driver.ErrNotFound, Err: errGone}
	}
	n.SetInstance(found[0])
	if err := n.dial(found[0]); err != nil {
		return err
	}
	if err := n.Client().Connect(ctx); err != nil {
		return err
	}
	s, _, err := supervisor.Attach(ctx, n.Client(), n.supervision())
	if err != nil {
		return err
	}
	n.supervise(s)
	return nil
}

// errGone is the error of a machine that its provider no longer reports.
var errGone = errors.New("it is not one of the provider's machines any more")
