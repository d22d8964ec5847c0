//go:build unix

package crash

import (
	"testing"

	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// TestCrash kills, stops and starves containers and programs with pools of containers. The slowest
// tests come first.
func TestCrash(t *testing.T) {
	e2etest.NeedDocker(t)
	e2etest.SideBySide(t, 5, []e2etest.Subtest{
		{Name: "PausedContainerGoesOn", Run: pausedContainerGoesOn},
		{Name: "KilledInEveryPhase", Run: killedInEveryPhase},
		{Name: "AttachInEveryPhase", Run: attachInEveryPhase},
		{Name: "TasksOfALostContainerRunElsewhere", Run: tasksOfALostContainerRunElsewhere},
		{Name: "AttachRecoversAGather", Run: attachRecoversAGather},
		{Name: "AbandonedContainersEndThemselves", Run: abandonedContainersEndThemselves},
		{Name: "AttachSecrets", Run: attachSecrets},
		{Name: "AttachGatherOfEverything", Run: attachGatherOfEverything},
		{Name: "AttachBroadcast", Run: attachBroadcast},
		{Name: "AttachFunctionOutput", Run: attachFunctionOutput},
		{Name: "AttachTwice", Run: attachTwice},
		{Name: "AttachStream", Run: attachStream},
		{Name: "AttachToWhatWasBeingClosed", Run: attachToWhatWasBeingClosed},
		{Name: "FencedOff", Run: fencedOff},
		{Name: "FencedOffEndsNothing", Run: fencedOffEndsNothing},
		{Name: "OutOfMemoryInAContainer", Run: outOfMemoryInAContainer},
		{Name: "FullDiskInAContainer", Run: fullDiskInAContainer},
		{Name: "KilledWorkerIsReplaced", Run: killedWorkerIsReplaced},
	})
}
