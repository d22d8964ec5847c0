package kubernetes

import "github.com/gputrain/gputrain/providers/driver"

const (
	// podFolder is runFolder, for a shell.
	podFolder = "${GPUTRAIN_POD_RUN:-" + runFolder + "}"
	// selfDestruct has process 1 end the pod, which ends the Job. The cluster then removes the Job
	// with its pod and Secret, without a credential of the node's.
	selfDestruct = `sh "` + podFolder + `/end"`
	// watchNotice prints how long the pod may still go on after it was told to end.
	watchNotice = `{ read -r end <"` + podFolder + `/preempted"; } 2>/dev/null && [ "$end" -gt 0 ] && left=$((end - $(date +%s))) && { [ "$left" -ge 0 ] || left=0; } && echo "$left"`
)

// Scripts returns the scripts of all nodes. They ask the cluster nothing, as a node has no token.
func (d *kubernetesDriver) Scripts(driver.Instance) driver.Scripts {
	return driver.Scripts{SelfDestruct: selfDestruct, PreemptionWatch: watchNotice}
}
