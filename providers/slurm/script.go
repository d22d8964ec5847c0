package slurm

import (
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

//go:embed job.sh
var jobScript string

//go:embed start.sh
var startScript string

//go:embed address.sh
var addressScript string

// batch returns the batch script of a job: variables and functions, and then job.sh. The only key in it is the pool's
// public one: the cluster may keep scripts for ever.
func (d *controller) batch(pool driver.PoolInfo, c comment, mounts []driver.Mount) string {
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	set := func(name, value string) { fmt.Fprintf(&b, "%s=%s\n", name, value) }
	set("gt_comment", quote(c.String()))
	set("gt_mark", quote(commentMark+" pool="+c.Pool))
	set("gt_key", quote(strings.TrimSpace(pool.AuthorizedKey)))
	set("gt_work", `"`+d.cfg.WorkDir+`"`) // variables in it are the job's: see workPath
	set("gt_work_given", fmt.Sprint(btoi(d.cfg.WorkDir != defaultWorkDir)))
	set("gt_sshd", quote(d.cfg.SSHD))
	set("gt_ports", fmt.Sprintf("(%d %d)", d.cfg.Ports[0], d.cfg.Ports[1]))
	set("gt_lease", fmt.Sprint(leaseSeconds(pool)))
	set("gt_sweep", fmt.Sprint(btoi(!d.facts.tracksAll())))
	set("gt_mounts", "("+strings.Join(d.cfg.mountWords(mounts), " ")+")")
	set("gt_start", quote(startScript))
	b.WriteString(addressScript)
	b.WriteString("gt_setup() {\n\t:\n")
	for i, line := range d.cfg.Setup {
		fmt.Fprintf(&b, "\teval %s || give_up setup:%d\n", quote(line), i+1)
	}
	b.WriteString("}\ngt_run() {\n" + d.cfg.runner(mounts) + "}\n")
	b.WriteString(jobScript)
	return b.String()
}

// leaseSeconds returns the time after which a job ends that no program has come to.
func leaseSeconds(pool driver.PoolInfo) int {
	const usual = 15 * time.Minute
	lease := pool.Lease
	if lease <= 0 {
		lease = usual
	}
	return int(max(lease, time.Second) / time.Second)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// runner returns the body of a function that runs its arguments where tasks are to run: on the node, in an image of
// apptainer's or its former name's, or by pyxis. The job's folder is at its own path there.
func (c Config) runner(mounts []driver.Mount) string {
	var binds []string
	for _, m := range mounts {
		bind := m.Source + ":" + m.Target
		if m.ReadOnly {
			bind += ":ro"
		}
		binds = append(binds, quote(bind))
	}
	switch {
	case c.Container == "":
		return "\texec \"$@\"\n"
	case strings.HasSuffix(c.Container, ".sif"):
		var b strings.Builder
		b.WriteString("\tlocal engine=apptainer gpus=\n\tcommand -v apptainer >/dev/null || engine=singularity\n")
		b.WriteString("\t[ ! -e /dev/nvidiactl ] || gpus=--nv\n\t[ ! -e /dev/kfd ] || gpus=--rocm\n")
		b.WriteString("\texec $engine exec $gpus --writable-tmpfs --bind \"$dir\"")
		for _, bind := range binds {
			b.WriteString(" --bind " + bind)
		}
		return b.String() + " " + quote(c.Container) + " \"$@\"\n"
	}
	text := "\texec srun --ntasks=1 --mem=0 --container-image=" + quote(c.Container) + " --no-container-remap-root --container-mounts=\"$dir:$dir\""
	for _, bind := range binds {
		text += "," + bind
	}
	return text + " \"$@\"\n"
}
