package node

import (
	"fmt"

	"github.com/gputrain/gputrain/internal/bootstrap"
)

// bootstrap prepares the node as the settings' image asks.
func (n *Node) bootstrap() error {
	phases := n.settings.Output.Phases(fmt.Sprintf("node %d", n.owner.Rank()))
	var base bootstrap.Base
	err := bootstrap.Run(n.ctx, n.Supervisor(), n.Files().Sync, n.settings.Image, bootstrap.Options{
		Output: phases.Writer,
		Base:   func(b bootstrap.Base) { base = b },
		Event:  n.owner.Phase,
	})
	phases.Flush()
	if err == nil {
		n.owner.Bootstrapped(base)
	}
	return err
}
