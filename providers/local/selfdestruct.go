package local

import (
	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/providers/driver"
)

// Scripts returns a command that ends the node's processes and removes its home. The token
// identifies the node's processes; the command has it, but no command line shows it.
func (d *localDriver) Scripts(in driver.Instance) driver.Scripts {
	if !validID(in.ID) {
		return driver.Scripts{}
	}
	return driver.Scripts{SelfDestruct: machine.SelfDestruct("", nodeEnv+"=$1", tokenEnv, "$2", in.ID, homePath(d.dir, in.ID))}
}
