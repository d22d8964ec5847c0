//go:build unix

package gputrain_test

import "testing"

// TestCrash kills, stops and starves programs with pools of containers, and the
// containers. What takes longest comes first.
func TestCrash(t *testing.T) {
	needDocker(t)
	sideBySide(t, 5, []subtest{
		{"PausedContainerGoesOn", pausedContainerGoesOn},
		{"KilledInEveryPhase", killedInEveryPhase},
		{"AttachInEveryPhase", attachInEveryPhase},
		{"StreamOnALostContainer", streamOnALostContainer},
		{"TasksOfALostContainerRunElsewhere", tasksOfALostContainerRunElsewhere},
		{"AttachRecoversAGather", attachRecoversAGather},
		{"AbandonedContainersEndThemselves", abandonedContainersEndThemselves},
		{"AttachSecrets", attachSecrets},
		{"AttachGatherOfEverything", attachGatherOfEverything},
		{"AttachBroadcast", attachBroadcast},
		{"AttachFunctionOutput", attachFunctionOutput},
		{"AttachTwice", attachTwice},
		{"AttachStream", attachStream},
		{"AttachToWhatWasBeingClosed", attachToWhatWasBeingClosed},
		{"FencedOff", fencedOff},
		{"FencedOffEndsNothing", fencedOffEndsNothing},
		{"OutOfMemoryInAContainer", outOfMemoryInAContainer},
		{"FullDiskInAContainer", fullDiskInAContainer},
		{"KilledWorkerIsReplaced", killedWorkerIsReplaced},
	})
}
