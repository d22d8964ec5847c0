package slurm

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// signalBefore is how long before its time limit a job is told, in seconds. USR2 is not used by NCCL, unlike USR1.
const signalBefore = 60

// sbatchOptions are the options of sbatch that only the driver gives, or that would make another job of it.
var sbatchOptions = []string{
	"job-name", "comment", "nodes", "ntasks", "output", "error", "requeue", "no-requeue", "signal", "time", "chdir", "array",
	"parsable", "partition", "clusters", "cluster", "deadline", "wrap", "test-only", "wait", "help", "usage", "version", "quiet", "export-file",
}

// sbatchLetters are the short forms of sbatchOptions.
const sbatchLetters = "JNnoetDapMWhuVQ"

// refusedArg returns why sbatch does not get an argument of the user's, or "". Options may be shortened.
func refusedArg(arg string) string {
	name, long := strings.CutPrefix(arg, "--")
	name, _, _ = strings.Cut(name, "=")
	switch {
	case hasControl(arg):
		return "has a control character"
	case len(arg) < 2 || arg[0] != '-' || long && name == "":
		return `is no option; write one with its value as one text: "--mail-type=FAIL"`
	case !long && strings.Contains(sbatchLetters, arg[1:2]),
		long && slices.ContainsFunc(sbatchOptions, func(o string) bool { return strings.HasPrefix(o, name) }):
		return "is an option that the driver gives"
	}
	return ""
}

// An ask is what a job asks for.
type ask struct {
	partition string
	gpuType   string // as a GRES; empty if there are none, or they have no type
	gpus      int
	cpus      int     // zero means the site's default
	memoryMiB float64 // zero means the site's default
	limit     time.Duration
}

// askOf returns what a job of an offer asks for. The offer was made for the query.
func (d *controller) askOf(o driver.Offer, q driver.Query) (ask, error) {
	gpuType, gpus, err := parseInstanceType(o.InstanceType)
	a := ask{partition: o.Region, gpuType: gpuType, gpus: gpus}
	a.cpus, a.memoryMiB = d.cfg.amounts(q, gpus)
	return a, err
}

// amounts returns the CPUs and the memory of a job. Zero means the site's default.
func (c Config) amounts(q driver.Query, gpus int) (cpus int, memoryMiB float64) {
	cpus = int(math.Ceil(q.VCPUs))
	if cpus == 0 {
		cpus = c.CPUsPerGPU * gpus
	}
	gib := q.MemoryGiB
	if gib == 0 {
		gib = c.MemoryPerGPUGiB * float64(gpus)
	}
	return cpus, math.Ceil(gib * 1024)
}

// sbatch returns the words of the command that submits the job of a node.
func (d *controller) sbatch(a ask, n driver.NodeRequest, comment string) []string {
	c := d.cfg
	words := d.slurm("sbatch", "--parsable", "--job-name="+pooltag.Prefix+n.Name, "--comment="+comment, "--partition="+a.partition,
		"--nodes=1", "--ntasks=1")
	option := func(is bool, format string, args ...any) {
		if is {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	option(a.cpus > 0, "--cpus-per-task=%d", a.cpus)
	option(a.memoryMiB > 0, "--mem=%dM", int64(a.memoryMiB))
	option(a.memoryMiB == 0 && c.Exclusive, "--mem=0")
	option(a.gpus > 0, "--gres=%s", gresText(a.gpuType, a.gpus))
	option(c.Exclusive, "--exclusive")
	option(c.Account != "", "--account=%s", c.Account)
	option(c.QOS != "", "--qos=%s", c.QOS)
	option(c.Constraint != "", "--constraint=%s", c.Constraint)
	option(c.Reservation != "", "--reservation=%s", c.Reservation)
	words = append(words, "--time="+strconv.Itoa(minutes(a.limit)), "--deadline=now+"+strconv.Itoa(d.deadline(a.limit)),
		"--no-requeue", "--signal=B:USR2@"+strconv.Itoa(signalBefore), "--output=/dev/null", "--error=/dev/null", "--chdir=/tmp")
	return append(words, c.SbatchArgs...)
}

// minutes rounds a time limit up.
func minutes(d time.Duration) int { return max(1, int(math.Ceil(d.Minutes()))) }

// deadline returns the seconds after which the queue ends a job, whether it waits or runs. It does so if the program that
// submitted the job has died.
func (d *controller) deadline(limit time.Duration) int {
	return int((d.cfg.QueueTimeout + upTimeout(d.cfg)).Seconds()) + 60*minutes(limit)
}
