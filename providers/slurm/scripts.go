package slurm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/nvidia"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// selfDestruct ends the job, with the user's permission for jobs. The job's own script ends processes that have left
	// the job.
	selfDestruct      = `scancel "$SLURM_JOB_ID" || { read -r gt_host gt_pid <"$GPUTRAIN_JOB/pid" && kill "$gt_pid"; }`
	selfDestructSweep = `read -r gt_host gt_pid <"$GPUTRAIN_JOB/pid" && kill "$gt_pid"; sleep 2; scancel "$SLURM_JOB_ID"`

	// preemptionWatch prints the seconds until a preemption, by the file of job.sh, or by the controller, which it asks
	// every 30 seconds.
	preemptionWatch = `now=$(date +%s)
end=
if [ -s "$GPUTRAIN_JOB/notice" ]; then
	read -r end <"$GPUTRAIN_JOB/notice"
else
	asked=0
	[ ! -s "$GPUTRAIN_JOB/asked" ] || read -r asked <"$GPUTRAIN_JOB/asked"
	if [ $((now - asked)) -ge 30 ]; then
		echo "$now" >"$GPUTRAIN_JOB/asked"
		fields=$(SLURM_TIME_FORMAT=%s scontrol --oneliner show job "$SLURM_JOB_ID" | tr ' ' '\n')
		case $(printf '%s\n' "$fields" | sed -n 's/^PreemptTime=//p') in
		[0-9]*) end=$(printf '%s\n' "$fields" | sed -n 's/^EndTime=//p' | tee "$GPUTRAIN_JOB/notice") ;;
		esac
	fi
fi
case $end in
[0-9]*) [ "$end" -gt "$now" ] && echo $((end - now)) || echo 0 ;;
esac`

	// probe prints the GPUs of a node whose type the cluster does not say.
	probe = nvidia.Query + ` 2>/dev/null || :`
)

// Scripts returns the scripts for a job. They rely on the variables that its SSH server gives to sessions.
func (d *slurmDriver) Scripts(in driver.Instance) driver.Scripts {
	s := driver.Scripts{SelfDestruct: selfDestruct, PreemptionWatch: preemptionWatch, FindAddress: addressScript + "gt_address"}
	if !d.facts.tracksAll() {
		s.SelfDestruct = selfDestructSweep
	}
	if isUntyped(in) {
		s.Probe, s.Probed = probe, probed
	}
	return s
}

// isUntyped reports whether it is not known what the GPUs of a job are.
func isUntyped(in driver.Instance) bool {
	kind, n, err := parseInstanceType(in.Offer.InstanceType)
	if err != nil || n == 0 || kind != "" {
		return false
	}
	return slices.Contains(in.Offer.Warnings, untypedWarning)
}

// probed reads the output of probe.
func probed(query driver.Query, printed string) (accelerators.Accelerator, error) {
	well, _, _ := nvidia.Devices(printed)
	kinds := nvidia.Kinds(well)
	has, suits := nvidia.Best(kinds, query.Accelerator)
	if !suits {
		return has, &driver.Error{Provider: providerName, Op: "probe", Kind: driver.ErrNoOffers,
			Err:  fmt.Errorf("the job has %s; the spec asks for %v", cmp.Or(nvidia.Text(kinds), "no GPU of NVIDIA's"), query.Accelerator),
			Hint: "name the GPUs of its partition in GPUNames"}
	}
	return has, nil
}
