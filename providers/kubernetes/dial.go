package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// directTimeout bounds the try of a pod's address before the API server is asked.
const directTimeout = 3 * time.Second

// Dial connects to a node's SSH server by Config.Reach.
func (d *kubernetesDriver) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	nc, err := d.api.dial(ctx, in)
	if err != nil {
		return nil, cloud.Fail(providerName, "dial", err, classify)
	}
	return nc, nil
}

func (a *api) dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	k, name, err := a.locate(in.ID)
	if err != nil {
		return nil, err
	}
	if a.cfg.Reach == ReachDirect || a.cfg.Reach == ReachAuto && k.inside {
		nc, err := a.dialDirect(ctx, k, in.PrivateAddr)
		if err == nil || a.cfg.Reach == ReachDirect {
			return nc, err
		}
	}
	pods, _, err := k.podsOf(ctx, name)
	if err != nil {
		return nil, err
	}
	p := current(pods)
	if p == nil || p.over() || p.isTerminated() || tagOf(p.Metadata).Pool == "" {
		return nil, &driver.Error{Kind: driver.ErrNotFound, Err: fmt.Errorf("the Job %s has no pod that goes on", name)}
	}
	if a.cfg.Reach == ReachExec {
		return k.exec(ctx, p.Metadata.Name)
	}
	return k.forward(ctx, p.Metadata.Name)
}

// dialDirect connects to a pod's address. Unless the API server is local itself, as that of a cluster on this computer
// may be, a pod at a local address is one that does not exist.
func (a *api) dialDirect(ctx context.Context, k *cluster, addr string) (net.Conn, error) {
	if addr == "" {
		return nil, &driver.Error{Kind: driver.ErrUnavailable, Err: errors.New("the pod has no address yet")}
	}
	if a.cfg.Reach == ReachAuto {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, directTimeout)
		defer cancel()
	}
	dial := func() (net.Conn, error) { return localnet.Dial(ctx, net.Dialer{}, sshAddr(addr)) }
	if localnet.IsURL(k.server) {
		dial = func() (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", sshAddr(addr)) }
	}
	nc, err := dial()
	if errors.Is(err, localnet.ErrLocal) {
		return nil, &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("the cluster reports a pod at %s: %w; nothing was sent", addr, err)}
	}
	if err != nil {
		return nil, &driver.Error{Kind: driver.ErrUnavailable, Err: err, Hint: "a pod's address is reached from inside the cluster: set Reach to forward"}
	}
	return nc, nil
}

func sshAddr(addr string) string { return net.JoinHostPort(addr, strconv.Itoa(sshPort)) }

// isNotUpgraded reports whether a server or a proxy has refused a kind of connection, so that
// another kind may do.
func isNotUpgraded(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
}

// An unreached error is that of all ways that were tried.
func unreached(hint string, errs ...error) error {
	err := errors.Join(errs...)
	hintOf, kind := classify("dial", err)
	if kind == nil {
		kind = driver.ErrUnavailable
	}
	if hintOf != "" {
		hint = hintOf
	}
	return &driver.Error{Kind: kind, Err: err, Hint: hint}
}
