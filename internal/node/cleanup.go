package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
)

// cleanTimeout bounds the cleaning of one adopted machine, and containerTimeout that of one with a container, which
// Docker may take long to remove.
const cleanTimeout, containerTimeout = 30 * time.Second, 2 * time.Minute

// Clean ends what the pool runs on a machine that goes on without it, and removes its files. Once it has succeeded it
// does nothing more. After Abandon it returns Abandon's error.
func (n *Node) Clean(ctx context.Context) error {
	n.cleaning.Lock()
	defer n.cleaning.Unlock()
	machine := n.onMachine()
	if machine == nil || n.clean || n.cleanErr != nil {
		return n.cleanErr
	}
	n.sharing.end(ctx)
	if len(n.settings.AuthorizedKeys) > 0 || n.owner == nil { // without an owner it is not known whether there were keys
		if err := n.removeKeys(ctx, n.Client()); err != nil {
			return err
		}
	}
	if err := n.container.leave(ctx); err != nil {
		return err
	}
	if err := machine.Close(ctx, true); err != nil {
		return err
	}
	if !n.Capabilities().KeepCache {
		if err := dropCache(ctx, n.Client(), machine.Facts().CacheDir); err != nil {
			return err
		}
	}
	n.clean = true
	return nil
}

// Abandon is Clean for a node that was given up, as far as its machine can be reached. It is
// the last attempt.
func (n *Node) Abandon() {
	limit := cleanTimeout
	if n.container.wanted() {
		limit = containerTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), limit)
	defer cancel()
	err := n.Clean(ctx)
	n.cleaning.Lock()
	defer n.cleaning.Unlock()
	n.cleanErr = err
}

// CleanEarlier reaches a machine on which an earlier program has had a node, cleans it, and
// closes the connection. If the lease has ended the node, or the machine was restarted, it is
// clean.
func (n *Node) CleanEarlier(ctx context.Context) error {
	defer n.Close()
	switch err := n.reach(ctx); {
	case errors.Is(err, supervisor.ErrLapsed), errors.Is(err, supervisor.ErrRestarted):
		return nil
	case err != nil:
		return err
	}
	return n.Clean(ctx)
}

// dropCacheAtLapse is the node's own dropCache, which the node runs in its t/ once its lease has run out. The node's
// folder is removed after it.
const dropCacheAtLapse = `p=$(cd .. && pwd); b=${p%/pools/*}
[ "$(ls "$b/pools")" != "${p##*/}" ] || rm -rf "$b/cache"
GPUTRAIN_REMOVE=1`

// dropCache removes files that the next pool on this machine could use again, unless another pool is there that does
// so.
func dropCache(ctx context.Context, client *ssh.Client, folder string) error {
	cache, err := supervisor.Quote(folder)
	if err != nil {
		return err
	}
	return client.Exec(ctx, fmt.Sprintf("c=%s; b=${c%%/*}; rmdir \"$b/pools\" 2>/dev/null; [ -e \"$b/pools\" ] || { rm -rf \"$c\"; rmdir \"$b\" 2>/dev/null; }; :", cache), nil, nil, nil)
}
