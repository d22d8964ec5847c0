//go:build unix

package faults

import (
	"testing"

	"github.com/gputrain/gputrain/internal/test/sidebyside"
)

// TestPatience runs the slow tests: they lose hosts and programs, cut links, ignore signals, and
// wait until the pool gives up or a lease runs out.
func TestPatience(t *testing.T) {
	sidebyside.Run(t, 5, []sidebyside.Test{
		{Name: "PoolEndsByItsTTL", Run: poolEndsByItsTTL},
		{Name: "CancelledCommands", Run: cancelledCommands},
		{Name: "FaultsUnderATaskAndACall", Run: faultsUnderATaskAndACall},
		{Name: "LostNodesTasksRunElsewhere", Run: lostNodesTasksRunElsewhere},
		{Name: "TargetsOfALostNodeFail", Run: targetsOfALostNodeFail, Long: true},
		{Name: "StoppedProgram", Run: stoppedProgram},
		{Name: "ProgramThatSleepsTooLong", Run: programThatSleepsTooLong},
		{Name: "HostKeyThatChanges", Run: hostKeyThatChanges},
		{Name: "OutputsOfALostNode", Run: outputsOfALostNode, Long: true},
		{Name: "OutputsOverALinkThatIsCut", Run: outputsOverALinkThatIsCut},
	})
}
