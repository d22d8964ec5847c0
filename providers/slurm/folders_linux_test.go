package slurm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// tasks are programs that hold on to the folder of their job, in one way each. They run in its home, and print a line once they do.
var tasks = map[string]string{
	"writes files":        `i=0; while :; do mkdir -p out/$((i % 7)); echo x >out/$((i % 7))/$i || :; i=$((i + 1)); [ $i != 50 ] || echo up; done`,
	"ignores TERM":        `trap '' TERM INT HUP; i=0; while :; do mkdir -p "$HOME/a/$i"; echo x >"$HOME/a/$i/f"; i=$(((i + 1) % 99)); [ $i != 50 ] || echo up; done`,
	"has no environment":  `exec env -i PATH="$PATH" bash -c 'trap "" TERM; echo up; while :; do echo x >$((RANDOM)); done'`,
	"has left its folder": `cd / && trap '' TERM; echo up; while :; do mkdir -p "$GPUTRAIN_JOB/home/b"; echo x >"$GPUTRAIN_JOB/home/b/$RANDOM"; done`,
	"forks":               `trap '' TERM; echo up; while :; do (echo x >f$RANDOM); done`,
	"writes beside home":  `trap '' TERM; echo up; while :; do echo x >"$GPUTRAIN_JOB/$RANDOM"; done`,
	"closes a folder":     `mkdir -p mod/deep && echo x >mod/deep/f && chmod -R a-w mod && chmod 000 mod/deep; echo up; exec sleep 1000`,
}

// startIn runs a task in the folder of a job, in a session of its own as sshd's are, and returns once it is up.
func startIn(t *testing.T, dir string, env []string, text string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("bash", "-c", text)
	cmd.Dir, cmd.Env = filepath.Join(dir, "home"), append(env, "GPUTRAIN_JOB="+dir, "HOME="+filepath.Join(dir, "home"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// A job that is ended while its task holds on to its folder leaves nothing on the node.
func TestNothingIsLeftByATaskThatWrites(t *testing.T) {
	for name, text := range tasks {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			id := r.submit()
			r.until(id, "node", isRunning)
			env, _ := r.cluster.environ(id)
			startIn(t, r.folder(id), env, text)
			if err := r.driver.Terminate(t.Context(), id); err != nil {
				t.Error(err)
			}
			r.until(id, "end", isTerminated)
			r.wantClean()
		})
	}
}

// The folder of a job that is dead, in whatever state, goes with the next job on its node; that of one that lives stays.
func TestNextJobRemovesFoldersOfDeadJobs(t *testing.T) {
	me := strconv.Itoa(os.Getpid()) // a process that lives, and is no job
	host, _ := os.Hostname()
	for name, tt := range map[string]struct {
		make string // in the folder
		kept bool
	}{
		"a dead process":                  {make: `echo "$HOST 4194303" >pid; mkdir home; echo x >home/f`},
		"a process that is another's now": {make: `echo "$HOST ` + me + `" >pid; mkdir home`},
		"removed in part, without a pid":  {make: `mkdir -p home/out; echo x >home/out/f`},
		"a folder closed to itself":       {make: `echo "$HOST 4194303" >pid; mkdir -p home/a; echo x >home/a/f; chmod 0 home/a`},
		"a pid of another node":           {make: `echo "elsewhere 4194303" >pid`, kept: true},
		"a job of the queue without one":  {make: `: >"$FAKE/comment.77"`, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			var old string
			r.cluster.set(func() { old = filepath.Join(r.cluster.nodes[0].tmp, "gputrain-77-abcdef") })
			if err := os.MkdirAll(old, 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-c", tt.make)
			cmd.Dir, cmd.Env = old, append(os.Environ(), "HOST="+host, "FAKE="+r.cluster.dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			id := r.submit()
			r.until(id, "node", isRunning)
			if !strings.HasPrefix(r.folder(id), filepath.Dir(old)) {
				t.Fatalf("the job is at %s, and not beside %s", r.folder(id), old)
			}
			if _, err := os.Stat(old); (err == nil) != tt.kept {
				t.Errorf("it is there: %v, want %v", err == nil, tt.kept)
			}
		})
	}
}

// A task that outlives its job, on a node that does not end it, goes with the folder at the next job.
func TestNextJobEndsTasksOfDeadJobs(t *testing.T) {
	r := newRig(t, nil)
	var old string
	r.cluster.set(func() { old = filepath.Join(r.cluster.nodes[0].tmp, "gputrain-77-abcdef") })
	if err := os.MkdirAll(filepath.Join(old, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	if err := os.WriteFile(filepath.Join(old, "pid"), []byte(host+" 4194303\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	task := startIn(t, old, os.Environ(), tasks["ignores TERM"])
	r.until(r.submit(), "node", isRunning)
	task.Wait() // else the test's own limit ends it
	if _, err := os.Stat(old); err == nil {
		t.Error("its folder is there")
	}
}
