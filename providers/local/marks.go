package local

import (
	"github.com/gputrain/gputrain/internal/machine"
)

// The variables of every process of a node. Nodes of other providers have the first two as
// well, and a container's processes are visible on its machine. A process of this provider also
// has the third: the folder of its home. Any process can have all of these. The token proves
// that a process is the node's: only the node's processes and its home have it.
const (
	poolEnv  = "GPUTRAIN_POOL"
	nodeEnv  = "GPUTRAIN_NODE"
	homesEnv = "GPUTRAIN_HOMES"
	tokenEnv = "GPUTRAIN_LOCAL_TOKEN"
)

// marks are the variables of a process that identify its node. A process from a version before
// homes or tokens lacks those.
type marks struct{ pool, node, homes, token string }

func marksOf(p machine.Process) marks {
	return marks{pool: p.Getenv(poolEnv), node: p.Getenv(nodeEnv), homes: p.Getenv(homesEnv), token: p.Getenv(tokenEnv)}
}

// nodeMark is the machine.Config.Mark of a node.
func nodeMark(id string) string { return nodeEnv + "=" + id }

// owns returns a func that reports whether a process with a node's name is the node's. Other
// users, and other pools' tasks, can put that name into their environments, too. An empty token
// means that it is unknown.
func (d *localDriver) owns(token string) func(machine.Process) bool {
	return func(p machine.Process) bool {
		m := marksOf(p)
		if token != "" {
			return m.token == token
		}
		return (m.homes == "" || m.homes == d.real) && p.IsOurs() && !d.homes.hasOther(m)
	}
}
