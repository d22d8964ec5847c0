package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A fakeJob is a job of the fake cluster.
type fakeJob struct {
	id, name, state, reason string
	partition               string
	gpus, cpus              int
	limit                   string
	node                    *fakeNode
	submitted, start, end   time.Time
	exitCode                string
	preempted               bool
	script                  string
	foreign                 bool // another tool's

	process *os.Process
	ended   chan struct{} // closed when the script has ended; nil if it never ran
	force   string        // the state that the job has once its script has ended
}

// holds reports whether the job has its node.
func (j *fakeJob) holds() bool {
	return j.node != nil && !stateOf(j.state).final
}

func (c *cluster) job(id string) *fakeJob {
	for _, j := range c.jobs {
		if j.id == id {
			return j
		}
	}
	return nil
}

// jobPrograms are Slurm's commands, as jobs need them.
var jobPrograms = map[string]string{
	"squeue": `for a; do case $a in
--jobs=*) cat "$FAKE_SLURM/comment.${a#--jobs=}" ;;
--user=*) for f in "$FAKE_SLURM"/comment.*; do [ -e "$FAKE_SLURM/over.${f##*.}" ] || echo "${f##*.}"; done ;;
esac; done`,
	"scontrol": `case $1 in
update)
	id=${2#JobId=}
	[ ! -e "$FAKE_SLURM/over.$id" ] || { echo "Job has already finished for job $id" >&2; exit 1; }
	printf '%s\n' "${3#Comment=}" >"$FAKE_SLURM/new.$id" && mv "$FAKE_SLURM/new.$id" "$FAKE_SLURM/comment.$id" ;;
*) cat "$FAKE_SLURM/show.$SLURM_JOB_ID" ;;
esac`,
	"scancel": `echo "$1" >>"$FAKE_SLURM/scancel"`,
}

func (c *cluster) install() {
	if err := os.Mkdir(c.bin, 0o700); err != nil {
		c.t.Fatal(err)
	}
	for name, text := range jobPrograms {
		if err := os.WriteFile(filepath.Join(c.bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			c.t.Fatal(err)
		}
	}
}

func option(args []string, name string) string {
	for _, a := range args {
		if value, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

func (c *cluster) sbatch(args []string, script string) printed {
	refuse := func(why string) printed {
		return printed{stderr: "sbatch: error: " + why + "\n", code: 1}
	}
	i := slices.IndexFunc(c.partitions, func(p fakePartition) bool { return p.name == option(args, "partition") })
	if i < 0 {
		return refuse("invalid partition specified: " + option(args, "partition") + "\nsbatch: error: Batch job submission failed: Invalid partition name specified")
	}
	if c.room == 0 {
		return refuse("QOSMaxGRESPerUser\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)")
	}
	if c.room > 0 {
		c.room--
	}
	c.lastID++
	j := &fakeJob{
		id: strconv.Itoa(c.lastID), name: option(args, "job-name"), state: "PENDING", reason: "None", partition: c.partitions[i].name, cpus: 1,
		limit: option(args, "time") + ":00", submitted: time.Now().Add(c.skew), script: script, exitCode: "0:0",
	}
	if all := parseGRES(option(args, "gres")); len(all) > 0 {
		j.gpus = all[0].count
	}
	if n, err := strconv.Atoi(option(args, "cpus-per-task")); err == nil {
		j.cpus = n
	}
	comment := option(args, "comment")
	if c.rewrites {
		comment = "submitted by policy 7"
	}
	c.write("comment."+j.id, comment)
	c.jobs = append(c.jobs, j)
	c.schedule()
	return printed{out: j.id + "\n"}
}

func (c *cluster) write(name, text string) {
	file := filepath.Join(c.dir, name)
	if err := os.WriteFile(file+".tmp", []byte(text+"\n"), 0o600); err != nil {
		c.t.Error(err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		c.t.Error(err)
	}
}

func (c *cluster) comment(j *fakeJob) string {
	text, err := os.ReadFile(filepath.Join(c.dir, "comment."+j.id))
	if err != nil {
		c.t.Error(err)
	}
	return strings.TrimSpace(string(text))
}

// schedule starts jobs that wait if there is room.
func (c *cluster) schedule() {
	for _, j := range c.jobs {
		if j.state != "PENDING" || c.stalled {
			continue
		}
		for _, n := range c.nodes {
			gpus, cpus := c.used(n)
			if n.state == "idle" && n.gpus-gpus >= j.gpus && n.cpus-cpus >= j.cpus {
				c.start(j, n)
				break
			}
		}
	}
}

// environ returns the environment of a job.
func (c *cluster) environ(id string) ([]string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.job(id)
	if j == nil || j.state != "RUNNING" {
		return nil, false
	}
	return c.jobEnv(j), true
}

func (c *cluster) jobEnv(j *fakeJob) []string {
	return []string{
		"PATH=" + c.bin + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(c.dir, "no-home"), "USER=" + os.Getenv("USER"), "FAKE_SLURM=" + c.dir,
		"SLURM_JOB_ID=" + j.id, "SLURM_JOB_NODELIST=" + j.node.name, "CUDA_VISIBLE_DEVICES=0", "TMPDIR=" + j.node.tmp,
	}
}

// start runs a job's script on a node.
func (c *cluster) start(j *fakeJob, n *fakeNode) {
	j.node, j.state, j.reason, j.start = n, "RUNNING", "None", time.Now().Add(c.skew)
	j.end = j.start.Add(parseLimit(j.limit))
	c.write("show."+j.id, j.record())
	if j.foreign {
		return
	}
	file := filepath.Join(c.dir, "script."+j.id)
	if err := os.WriteFile(file, []byte(j.script), 0o700); err != nil {
		c.t.Error(err)
	}
	cmd := exec.Command("bash", file)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/tmp", append(c.jobEnv(j), "GPUTRAIN_FAKE_JOB="+c.dir+"/"+j.id), &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		c.t.Error(err)
		j.state = "FAILED"
		return
	}
	j.process, j.ended = cmd.Process, make(chan struct{})
	c.wg.Go(func() {
		cmd.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		close(j.ended)
		j.exitCode = fmt.Sprintf("%d:0", max(cmd.ProcessState.ExitCode(), 0))
		state := "COMPLETED"
		if cmd.ProcessState.ExitCode() != 0 {
			state = "FAILED"
		}
		j.reap(c)
		if j.state == "RUNNING" || j.state == "COMPLETING" {
			j.finish(c, state)
		}
	})
}

// finish gives a job its last state. A cgroup's end ends all processes of it.
func (j *fakeJob) finish(c *cluster, state string) {
	if j.force != "" {
		state = j.force
	}
	j.state, j.end = state, time.Now().Add(c.skew)
	c.write("over."+j.id, "")
}

// scancel cancels jobs, and knows no error for others.
func (c *cluster) scancel(args []string) {
	for _, id := range args {
		j := c.job(id)
		switch {
		case j == nil || stateOf(j.state).final:
		case j.process == nil:
			j.finish(c, "CANCELLED")
		default:
			j.stop(c, "CANCELLED")
		}
	}
}

// stop ends a job's script, as Slurm does: by TERM, and by KILL after a while.
func (j *fakeJob) stop(c *cluster, state string) {
	select {
	case <-j.ended:
		j.finish(c, state)
		return
	default:
	}
	if j.force != "" {
		return // it is on its way
	}
	j.force, j.state = state, "COMPLETING"
	j.process.Signal(syscall.SIGTERM)
	c.wg.Go(func() {
		select {
		case <-j.ended:
		case <-time.After(30 * time.Second): // KillWait
			c.mu.Lock()
			defer c.mu.Unlock()
			j.kill(c)
		}
	})
}

// kill ends all processes of a job at once.
func (j *fakeJob) kill(c *cluster) {
	if j.process != nil {
		j.process.Kill()
		j.reap(c)
	}
}

// reap ends every process of a job, as the end of its cgroup does: those of its session, those that have the job in their
// environment, and their children.
func (j *fakeJob) reap(c *cluster) {
	for range 3 {
		parents, ours := map[int]int{}, map[int]bool{}
		files, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, file := range files {
			stat, err := os.ReadFile(file)
			env, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ")) // empty of a process that has ended
			var pid, parent, group, session int
			var state string
			_, rest, ok := strings.Cut(string(stat), ") ")
			if err != nil || !ok {
				continue
			}
			fmt.Sscan(string(stat), &pid)
			fmt.Sscan(rest, &state, &parent, &group, &session)
			parents[pid] = parent
			ours[pid] = session == j.process.Pid || strings.Contains(string(env), "="+c.dir) && strings.Contains("\x00"+string(env), "\x00SLURM_JOB_ID="+j.id+"\x00")
		}
		for range 4 {
			for pid, parent := range parents {
				ours[pid] = ours[pid] || ours[parent]
			}
		}
		for pid, is := range ours {
			if is && pid != os.Getpid() {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

func (c *cluster) update(id, comment string) printed {
	j := c.job(id)
	switch {
	case j == nil:
		return printed{stderr: "Invalid job id specified for job " + id + "\n", code: 1}
	case stateOf(j.state).final:
		return printed{stderr: "Job has already finished for job " + id + "\n", code: 1}
	}
	c.write("comment."+id, comment)
	return printed{}
}

// record is the output of scontrol show job.
func (j *fakeJob) record() string {
	preempt := "None"
	if j.preempted {
		preempt = strconv.FormatInt(j.start.Unix(), 10)
	}
	return fmt.Sprintf("JobId=%s JobName=%s UserId=alice(2001) JobState=%s Reason=%s Requeue=0 ExitCode=%s StartTime=%s EndTime=%s PreemptTime=%s SuspendTime=None Comment=x  StdErr=/dev/null\n",
		j.id, j.name, j.state, j.reason, j.exitCode, seconds(j.start), seconds(j.end), preempt)
}

func seconds(t time.Time) string {
	if t.IsZero() {
		return "N/A"
	}
	return strconv.FormatInt(t.Unix(), 10)
}

func (c *cluster) squeue(args []string) printed {
	if !slices.Contains(args, "--format="+squeueFormat) || !slices.Contains(args, "--states=all") || !slices.Contains(args, "--me") {
		return printed{stderr: "squeue: error: Unrecognized option\n", code: 1}
	}
	var b strings.Builder
	for _, j := range c.jobs {
		if name := option(args, "name"); name != "" && j.name != name {
			continue
		}
		reason, node, gres := j.reason, "", "N/A"
		if j.state == "PENDING" {
			reason = "Resources"
			if c.reason != "" {
				reason = c.reason
			}
		}
		if j.node != nil {
			node = j.node.name
		}
		if j.gpus > 0 {
			gres = "gres:gpu:a100:" + strconv.Itoa(j.gpus)
		}
		fmt.Fprintln(&b, strings.Join([]string{
			j.id, j.name, j.state, reason, node, seconds(j.submitted), seconds(j.start), seconds(j.end), j.limit, j.partition, gres, strconv.Itoa(j.cpus), "0", c.comment(j),
		}, separator))
	}
	return printed{out: b.String()}
}

func (c *cluster) sacct(args []string) printed {
	if c.accounting == nil {
		return printed{stderr: "Slurm accounting storage is disabled\n", code: 1}
	}
	var b strings.Builder
	for id := range strings.SplitSeq(option(args, "jobs"), ",") {
		b.WriteString(c.accounting[id])
	}
	return printed{out: b.String()}
}

// findSSHD returns the path of OpenSSH's server. Without one the test is skipped.
func findSSHD(t testing.TB) string {
	t.Helper()
	for _, path := range []string{defaultSSHD, "/usr/local/sbin/sshd"} {
		if _, err := os.Stat(path); err == nil {
			if os.Getuid() == 0 {
				os.MkdirAll("/run/sshd", 0o755) // Debian's sshd needs it of root
			}
			return path
		}
	}
	if os.Getenv("GPUTRAIN_REQUIRE_SSHD") != "" {
		t.Fatal("no sshd on this machine, and GPUTRAIN_REQUIRE_SSHD is set: install openssh-server")
	}
	t.Skip("no sshd on this machine: install openssh-server")
	return ""
}
