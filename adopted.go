package gputrain

import (
	"context"
	"fmt"

	"github.com/gputrain/gputrain/internal/supervisor"
)

// leave ends what the pool runs on a machine that goes on without it. Once it
// has succeeded it does nothing more.
func (n *poolNode) leave(ctx context.Context) error {
	if n.super == nil || n.left || n.leaveErr != nil {
		return n.leaveErr // after abandon the connection is closed: this was the only chance
	}
	n.worker.close()
	if err := n.super.Close(ctx, true); err != nil {
		return err
	}
	if !n.caps().KeepCache {
		if err := n.dropCache(ctx); err != nil {
			return err
		}
	}
	n.left = true
	return nil
}

// abandon tidies up on a machine that failed, as far as it can be reached. The
// end of the pool reports what could not be done.
func (n *poolNode) abandon() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), leaveTimeout)
	defer cancel()
	n.leaveErr = n.leave(ctx)
}

// lapseCache is what dropCache does, run by the node itself in its t/ where it
// hears no more from this program. The node's folder is removed after it.
const lapseCache = `p=$(cd .. && pwd); b=${p%/pools/*}
[ "$(ls "$b/pools")" != "${p##*/}" ] || rm -rf "$b/cache"
GPUTRAIN_REMOVE=1`

// dropCache removes what the next pool on this machine could have used again,
// unless another pool is there that does.
func (n *poolNode) dropCache(ctx context.Context) error {
	cache, err := supervisor.Quote(n.facts.CacheDir)
	if err != nil {
		return err
	}
	return n.client.Exec(ctx, fmt.Sprintf("c=%s; b=${c%%/*}; rmdir \"$b/pools\" 2>/dev/null; [ -e \"$b/pools\" ] || { rm -rf \"$c\"; rmdir \"$b\" 2>/dev/null; }; :", cache), nil, nil, nil)
}
