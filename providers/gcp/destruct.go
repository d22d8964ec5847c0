package gcp

import (
	_ "embed"
	"fmt"
	"math"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// destructScript defines gcp_end, with which a machine ends itself. startScript runs at a
// machine's start, as root.
var (
	//go:embed destruct.sh
	destructScript string
	//go:embed start.sh
	startScript string
)

// Scripts returns a script with which a machine deletes itself, if Config.ServiceAccount is set.
// Without an identity a machine cannot end its billing: its start script shuts it down once its
// lease is over, and its disk is billed until the machine is deleted. Another script asks the
// metadata server for a preemption.
func (d *gcpDriver) Scripts(in driver.Instance) driver.Scripts {
	end := ""
	if d.cfg.ServiceAccount != "" {
		end = d.cfg.destruct(in.ID) + "gcp_end\n"
	}
	return driver.Scripts{
		SelfDestruct: end,
		PreemptionWatch: fmt.Sprintf(`case $(curl -fsS -m 5 -H 'Metadata-Flavor: Google' "http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance/preempted" 2>/dev/null) in TRUE) echo %d ;; esac
`, int(noticeTime.Seconds())),
	}
}

// destruct returns the script that defines gcp_end for a machine.
func (c Config) destruct(id string) string {
	zone, name, _ := parseID(id)
	self := fmt.Sprintf("%s/compute/v1/projects/%s/zones/%s/instances/%s", c.compute(), c.ProjectID, zone, name)
	return fmt.Sprintf("gcp_self=%s gcp_pause=%g\n", cloud.Quote(self), math.Ceil(10*second.Seconds())) + cloud.Script(destructScript)
}

// startScript returns the script that a node runs at its start: it ends the node unless the
// pool takes it over, and once no program holds it any more.
func (c Config) startScript(id, name string) string {
	wait := int(math.Ceil(c.InstanceTimeout.Seconds()))
	return fmt.Sprintf("#!/bin/sh\ngcp_node=%s gcp_wait=%d\n", cloud.Quote(name), wait) + c.destruct(id) + cloud.Script(startScript)
}
