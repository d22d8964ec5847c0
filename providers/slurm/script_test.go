//go:build unix

package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A container of the job's: the command that runs its SSH server there, by stand-ins for srun and apptainer.
func TestContainers(t *testing.T) {
	mounts := []driver.Mount{{Source: "/shared/data set", Target: "/data", ReadOnly: true}, {Source: "/scratch", Target: "/scratch"}}
	for image, want := range map[string]string{
		"nvcr.io#nvidia/pytorch:24.01-py3": "srun|--ntasks=1|--mem=0|--container-image=nvcr.io#nvidia/pytorch:24.01-py3|--no-container-remap-root|--container-mounts=/tmp/job:/tmp/job,/shared/data set:/data:ro,/scratch:/scratch|sh|start.sh|/tmp/job",
		"/images/torch.sif":                "apptainer|exec|--writable-tmpfs|--bind|/tmp/job|--bind|/shared/data set:/data:ro|--bind|/scratch:/scratch|/images/torch.sif|sh|start.sh|/tmp/job",
		"":                                 "sh|start.sh|/tmp/job",
	} {
		bin := t.TempDir()
		for _, name := range []string{"srun", "apptainer", "sh"} {
			text := "#!/bin/bash\nprintf '%s' " + name + "\nprintf '|%s' \"$@\"\n"
			if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		script := "dir=/tmp/job\ngt_run() {\n" + Config{Container: image}.runner(mounts) + "}\ngt_run sh start.sh $dir\n"
		cmd := exec.Command("bash", "-c", script)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		got := strings.NewReplacer("|--nv", "", "|--rocm", "").Replace(string(out))
		if err != nil || got != want {
			t.Errorf("%q:\n got %s\nwant %s\n%v", image, got, want, err)
		}
	}
}

// The batch script is one that bash reads, whatever the values in it are.
func TestBatchScript(t *testing.T) {
	odd := `a'b"c$(touch /tmp/never) \d`
	c := Config{Setup: []string{odd, "module load cuda"}, WorkDir: "/scratch/$USER", Container: "x.sif"}.complete()
	d := &controller{cfg: c, facts: facts{proctrack: "linuxproc"}}
	pool := driver.PoolInfo{ID: "p1", AuthorizedKey: "ssh-ed25519 AAAA " + odd, Tags: map[string]string{"team": "a b=c"}, Owner: "host/1/2"}
	script := d.batch(pool, commentOf(pool, driver.NodeRequest{Name: "p1-0"}, time.Unix(1795767031, 0)), []driver.Mount{{Source: "/a'b", Target: "/a'b"}})
	if out, err := exec.Command("bash", "-n", "-c", script).CombinedOutput(); err != nil {
		t.Errorf("%v: %s\n%s", err, out, script)
	}
	head, _, _ := strings.Cut(script, "# start.sh DIR")
	golden := filepath.Join("testdata", "golden", "head.sh")
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != head {
		t.Errorf("the head of the script is not that of %s (%v):\n%s", golden, err, head)
	}
	for name, text := range map[string]string{"start.sh": startScript, "address.sh": addressScript, "watch": preemptionWatch, "end": selfDestruct, "sweep": selfDestructSweep} {
		if out, err := exec.Command("sh", "-n", "-c", text).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// The shell text around commands makes their answers readable, and a part of it runs nothing.
func TestShellText(t *testing.T) {
	commands := []command{
		{words: []string{"printf", "%s|", "a b", "", "it's", "$HOME", "\x1f"}},
		{words: []string{"cat"}, input: "first\n'second' $x\n"},
		{words: []string{"sh", "-c", "env | grep -c -e '^SQUEUE_FORMAT=' -e '^SLURM_JOB_ID='; exit 3"}},
		{words: []string{"sh", "-c", "echo $SLURM_CONF $SLURM_TIME_FORMAT $LC_ALL"}},
	}
	script := text("mark", "", commands)
	run := func(script string) string {
		cmd := exec.Command("sh")
		cmd.Env = append(os.Environ(), "SQUEUE_FORMAT=%i", "SLURM_JOB_ID=7", "SLURM_CONF=/etc/own.conf", "LC_ALL=de_DE.UTF-8")
		cmd.Stdin = strings.NewReader(script)
		out, _ := cmd.Output() // what is printed decides
		return "Welcome\n" + string(out)
	}
	got, err := parseAnswers("mark", run(script), len(commands))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []answer{{"a b||it's|$HOME|\x1f|", 0}, {"first\n'second' $x\n", 0}, {"0\n", 3}, {"/etc/own.conf %s C\n", 0}} {
		if got[i] != want {
			t.Errorf("command %d: %+v, want %+v", i, got[i], want)
		}
	}
	for _, n := range []int{10, len(script) / 2, len(script) - 4} {
		if out := run(script[:n]); strings.Contains(out, "mark") {
			t.Errorf("%d bytes of the text run: %q", n, out)
		}
	}
}

// A notice of preemption is printed as seconds, and the controller is asked for it every 30 seconds at most.
func TestPreemptionWatch(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	answer := filepath.Join(dir, "answer")
	if err := os.WriteFile(filepath.Join(bin, "scontrol"), []byte("#!/bin/sh\necho x >>"+dir+"/calls\ncat "+answer+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	watch := func() string {
		cmd := exec.Command("sh", "-c", preemptionWatch)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "GPUTRAIN_JOB=" + dir, "SLURM_JOB_ID=7"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	end := time.Now().Add(time.Hour).Unix()
	write("answer", fmt.Sprintf("JobId=7 EndTime=%d PreemptTime=None SuspendTime=None\n", end))
	for range 2 {
		if got := watch(); got != "" {
			t.Errorf("without a preemption: %q", got)
		}
	}
	if calls, err := os.ReadFile(filepath.Join(dir, "calls")); string(calls) != "x\n" {
		t.Errorf("%q, %v", calls, err)
	}
	write("asked", "0")
	write("answer", fmt.Sprintf("JobId=7 EndTime=%d PreemptEligibleTime=1 PreemptTime=%d SuspendTime=None\n", end, end-3600))
	for range 2 { // the second time by the file
		var seconds int
		if _, err := fmt.Sscan(watch(), &seconds); err != nil || seconds < 3000 || seconds > 3600 {
			t.Errorf("%d seconds, %v", seconds, err)
		}
	}
}
