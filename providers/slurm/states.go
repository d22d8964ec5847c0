package slurm

import (
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// A jobState is what one of Slurm's states of jobs means here.
type jobState struct {
	state driver.InstanceState
	// comesUp is true if the node is not there before its SSH server has an address.
	comesUp bool
	// final is true if the job is over: nothing of it runs, and it does not come back.
	final bool
	// unwanted is true if a job in this state must be cancelled.
	unwanted bool
}

// jobStates are Slurm's states, as squeue and sacct show them. Others are unknown.
var jobStates = map[string]jobState{
	"PENDING":       {state: driver.InstancePending},
	"CONFIGURING":   {state: driver.InstanceRunning, comesUp: true},
	"RESIZING":      {state: driver.InstanceRunning, comesUp: true},
	"SIGNALING":     {state: driver.InstanceRunning, comesUp: true},
	"STAGE_OUT":     {state: driver.InstanceRunning, comesUp: true},
	"RUNNING":       {state: driver.InstanceRunning, comesUp: true},
	"SUSPENDED":     {state: driver.InstanceStopped},
	"STOPPED":       {state: driver.InstanceStopped},
	"COMPLETING":    {state: driver.InstanceStopped},
	"RESV_DEL_HOLD": {state: driver.InstancePending},
	"REQUEUED":      {state: driver.InstanceFailed, unwanted: true},
	"REQUEUE_HOLD":  {state: driver.InstanceFailed, unwanted: true},
	"REQUEUE_FED":   {state: driver.InstanceFailed, unwanted: true},
	"SPECIAL_EXIT":  {state: driver.InstanceFailed, unwanted: true},
	"COMPLETED":     {state: driver.InstanceTerminated, final: true},
	"CANCELLED":     {state: driver.InstanceTerminated, final: true},
	"TIMEOUT":       {state: driver.InstanceTerminated, final: true},
	"DEADLINE":      {state: driver.InstanceTerminated, final: true},
	"REVOKED":       {state: driver.InstanceTerminated, final: true},
	"FAILED":        {state: driver.InstanceFailed, final: true},
	"OUT_OF_MEMORY": {state: driver.InstanceFailed, final: true},
	"PREEMPTED":     {state: driver.InstancePreempted, final: true},
	"NODE_FAIL":     {state: driver.InstanceFailed, final: true},
	"BOOT_FAIL":     {state: driver.InstanceFailed, final: true},
	"LAUNCH_FAILED": {state: driver.InstanceFailed, final: true},
	"EXPEDITING":    {state: driver.InstancePending},
	"POWER_UP_NODE": {state: driver.InstanceRunning, comesUp: true},
}

// meanings explain some states.
var meanings = map[string]string{
	"SUSPENDED":     "the cluster gives its node to another job for a while; its time goes on",
	"COMPLETING":    "its processes are being ended",
	"TIMEOUT":       "its time limit has passed",
	"DEADLINE":      "it had not ended by its deadline",
	"OUT_OF_MEMORY": "it has used more memory than it asked for, and all of it was ended; ask for more MemoryGiB",
	"NODE_FAIL":     "its node has failed",
	"BOOT_FAIL":     "its node did not boot",
	"PREEMPTED":     "a job of a partition with priority has its node",
}

// stateOf returns the meaning of a state. sacct adds words: "CANCELLED by 2001".
func stateOf(state string) jobState {
	state, _, _ = strings.Cut(state, " ")
	return jobStates[strings.TrimSuffix(state, "+")]
}

// stateReason describes a state in Slurm's words.
func stateReason(state, reason string) string {
	text := state
	word, _, _ := strings.Cut(state, " ")
	if why := meanings[word]; why != "" {
		text += ": " + why
	}
	if reason != "" && reason != "None" && !strings.Contains(text, reason) {
		text += " (" + reason + ")"
	}
	return text
}

// byWatcher is the exit status of a job that its own script has ended: by its watcher, whose lease has run out.
const byWatcher = "143:0"
