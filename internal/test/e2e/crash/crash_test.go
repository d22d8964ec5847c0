//go:build unix

package crash

import (
	"testing"

	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/sidebyside"
)

// TestCrash kills, stops and starves containers and programs with pools of containers. The slowest
// tests come first.
func TestCrash(t *testing.T) {
	e2etest.NeedDocker(t)
	sidebyside.Run(t, 5, []sidebyside.Test{
		{Name: "PausedContainerGoesOn", Run: pausedContainerGoesOn},
		{Name: "KilledInEveryPhase", Run: killedInEveryPhase, Long: true},
		{Name: "AttachInEveryPhase", Run: attachInEveryPhase, Long: true},
		{Name: "TasksOfALostContainerRunElsewhere", Run: tasksOfALostContainerRunElsewhere, Long: true},
		{Name: "AttachRecoversAGather", Run: attachRecoversAGather, Long: true},
		{Name: "AbandonedContainersEndThemselves", Run: abandonedContainersEndThemselves},
		{Name: "AttachSecrets", Run: attachSecrets, Long: true},
		{Name: "AttachGatherOfEverything", Run: attachGatherOfEverything, Long: true},
		{Name: "AttachBroadcast", Run: attachBroadcast, Long: true},
		{Name: "AttachFunctionOutput", Run: attachFunctionOutput, Long: true},
		{Name: "AttachTwice", Run: attachTwice, Long: true},
		{Name: "AttachStream", Run: attachStream, Long: true},
		{Name: "AttachToWhatWasBeingClosed", Run: attachToWhatWasBeingClosed, Long: true},
		{Name: "FencedOff", Run: fencedOff},
		{Name: "FencedOffEndsNothing", Run: fencedOffEndsNothing, Long: true},
		{Name: "OutOfMemoryInAContainer", Run: outOfMemoryInAContainer},
		{Name: "FullDiskInAContainer", Run: fullDiskInAContainer, Long: true},
		{Name: "KilledWorkerIsReplaced", Run: killedWorkerIsReplaced, Long: true},
	})
}
