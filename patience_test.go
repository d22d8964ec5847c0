//go:build unix

package gputrain_test

import "testing"

// TestPatience has hosts and programs lost, links cut and tasks that do not obey, and
// waits with the pool until that gives them up, or their lease ends them.
func TestPatience(t *testing.T) {
	sideBySide(t, 5, []subtest{
		{"ClientThatIsKilled", clientThatIsKilled},
		{"PoolEndsByItsTTL", poolEndsByItsTTL},
		{"CancelledCommands", cancelledCommands},
		{"FaultsUnderATaskAndACall", faultsUnderATaskAndACall},
		{"StreamsOverALinkThatIsCut", streamsOverALinkThatIsCut},
		{"LostNodesTasksRunElsewhere", lostNodesTasksRunElsewhere},
		{"TargetsOfALostNodeFail", targetsOfALostNodeFail},
		{"StoppedProgram", stoppedProgram},
		{"HostKeyThatChanges", hostKeyThatChanges},
	})
}
