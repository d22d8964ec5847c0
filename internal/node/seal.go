package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
)

// errSealed is why a node is given up of whose machine an image is to be made.
var errSealed = errors.New("an image is made of its machine")

// Seal ends a ready node and removes from its machine everything that must not be in an image of it, but keeps what
// the image's phases have made, for machines that start from it: see [bootstrap.Options.Baked]. The machine goes on
// without a lease. If it can end itself, it does so after a time. A node that was given up before is [driver.ErrNodeLost].
func Seal(ctx context.Context, n *Node, key string, within time.Duration) error {
	n.GiveUp(errSealed) // nothing notices from now on that the node is gone
	if why := context.Cause(n.Context()); !errors.Is(why, errSealed) {
		return &driver.Error{Provider: n.Provider(), Op: "clean " + n.Name() + " before an image is made of it", Kind: driver.ErrNodeLost, Err: why}
	}
	facts := n.Facts()
	s := bootstrap.Seal{
		Key: key, PublicKey: n.settings.Login.Public, KeyMark: n.keyMark(), SelfDestruct: n.scripts().SelfDestruct, Seconds: int(within / time.Second),
	}
	keep, err := s.Keep(facts)
	if err != nil {
		return err
	}
	clean, err := s.Clean(facts)
	if err != nil {
		return err
	}
	if err := shell(ctx, n, keep); err != nil {
		return notSealed(n, err)
	}
	if err := n.Supervisor().Close(ctx, true); err != nil {
		return notSealed(n, err)
	}
	return notSealed(n, shell(ctx, n, clean))
}

// shell runs a text in a shell on the machine.
func shell(ctx context.Context, n *Node, text string) error {
	var said bounded.Buffer
	err := n.Client().Exec(ctx, "exec sh", strings.NewReader(text), nil, &said)
	if words := strings.TrimSpace(said.String()); err != nil && words != "" {
		err = fmt.Errorf("%w: %s", err, words)
	}
	return err
}

// notSealed returns the error of a machine that could not be sealed.
func notSealed(n *Node, err error) error {
	if err == nil {
		return nil
	}
	kind := driver.ErrUnsupported
	if errors.Is(err, ssh.ErrDisconnected) {
		kind = driver.ErrUnavailable
	}
	return &driver.Error{
		Provider: n.Provider(), Op: "clean " + n.Name() + " before an image is made of it", Kind: kind, Err: err,
	}
}

// baked returns the key of the image that the machine was started from, or "".
func (m *Machine) baked() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.offer == nil || m.offer.Baked == "" {
		return ""
	}
	return bootstrap.BakeKey(m.settings.Image)
}
