package gcp

import (
	_ "embed"
	"fmt"
	"math"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// destructScript defines gcp_end, by which a machine ends itself, and startScript is what
// a machine runs when it starts, as root.
var (
	//go:embed destruct.sh
	destructScript string
	//go:embed start.sh
	startScript string
)

// SelfDestruct returns shell text by which a machine deletes itself where
// Config.ServiceAccount allows that, and shuts down where not: its disk then remains, and
// is billed, until somebody deletes the machine.
func (d *driver) SelfDestruct(in gputrain.Instance) string {
	return d.destruct(in.ID) + "gcp_end\n"
}

func (d *driver) destruct(id string) string {
	zone, name, _ := parseID(id)
	self := fmt.Sprintf("%s/compute/v1/projects/%s/zones/%s/instances/%s", d.cfg.compute(), d.cfg.ProjectID, zone, name)
	return fmt.Sprintf("gcp_self=%s gcp_pause=%g\n", cloud.Quote(self), math.Ceil(10*second.Seconds())) + cloud.Script(destructScript)
}

// startScript is what a node runs at its start: it ends the node where nobody takes it
// over.
func (d *driver) startScript(id, name string) string {
	wait := int(math.Ceil(d.cfg.InstanceTimeout.Seconds()))
	return fmt.Sprintf("#!/bin/sh\ngcp_node=%s gcp_wait=%d\n", cloud.Quote(name), wait) + d.destruct(id) + cloud.Script(startScript)
}

// PreemptionWatch returns shell text that asks the machine's metadata server.
func (d *driver) PreemptionWatch(gputrain.Instance) string {
	return fmt.Sprintf(`case $(curl -fsS -m 5 -H 'Metadata-Flavor: Google' "http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance/preempted" 2>/dev/null) in TRUE) echo %d ;; esac
`, int(noticeTime.Seconds()))
}
