package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/ssh"
)

// A login node that forbids forwarding: steps of the job carry the bytes, from then on.
func TestSteps(t *testing.T) {
	r := newRig(t, nil)
	r.login.noForwarding = true
	id := r.submit()
	in := r.until(id, "node", isRunning)
	for range 2 {
		conn, err := r.driver.Dial(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		greeting := make([]byte, 8)
		if _, err := conn.Read(greeting); err != nil || string(greeting[:4]) != "SSH-" {
			t.Errorf("%q, %v", greeting, err)
		}
		conn.Close()
	}
	if !r.driver.steps {
		t.Error("a forward is tried each time")
	}
	if err := r.driver.Terminate(t.Context(), id); err != nil {
		t.Error(err)
	}
	r.until(id, "end", isTerminated)
	gone := job{id: id, comment: comment{dir: "/tmp/x"}}
	if conn, err := step(t.Context(), r.client(), gone, r.driver.stepCommand(gone)); err == nil || !strings.Contains(err.Error(), "Invalid job id") {
		t.Errorf("a step of a job that is gone: %v, %v", conn, err)
	}
}

// The login node is behind a bastion, and the bastion's connection carries everything.
func TestJump(t *testing.T) {
	var bastion *fakeLogin
	r := newRig(t, func(cfg *Config, c *cluster) {
		bastion = startLogin(t, c)
		cfg.Jump = []ssh.Host{bastion.config().Login}
	})
	in := r.until(r.submit(), "node", isRunning)
	conn, err := r.driver.Dial(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if bastion.connections() != 1 || r.login.connections() != 1 {
		t.Errorf("%d connections to the bastion, %d to the login node", bastion.connections(), r.login.connections())
	}
}

// Nothing of a job is left on its node, whoever ends it: the driver, or the job's own watcher.
func TestNothingIsLeft(t *testing.T) {
	for how, end := range map[string]func(*rig, string){
		"terminate": func(r *rig, id string) {
			if err := r.driver.Terminate(r.Context(), id); err != nil {
				r.Error(err)
			}
		},
		"self-destruct": func(r *rig, id string) { r.onNode(id, r.driver.Scripts(driver.Instance{}).SelfDestruct) },
		"self-destruct without scancel": func(r *rig, id string) {
			r.onNode(id, "scancel() { return 1; }; "+r.driver.Scripts(driver.Instance{}).SelfDestruct)
		},
	} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t, nil)
			id := r.submit()
			r.until(id, "node", isRunning)
			end(r, id)
			if in := r.until(id, "end", isTerminated); in.StateReason == "" {
				t.Error("no reason")
			}
			r.wantClean()
		})
	}
}

// A program that was killed while its job waited comes no more: the job ends after a lease.
func TestUnclaimed(t *testing.T) {
	r := newRig(t, nil)
	r.launch.Pool.Lease = time.Second
	r.until(r.submit(), "end", func(in driver.Instance) bool { return isTerminated(in) && strings.Contains(in.StateReason, "lease") })
	r.wantClean()
}

// What a job's script gives up for is the node's failure, with its kind.
func TestGivenUp(t *testing.T) {
	for want, change := range map[error]func(*Config, *driver.Launch){
		driver.ErrUnsupported: func(c *Config, _ *driver.Launch) { c.SSHD = "/no/such/sshd" },
		driver.ErrInvalid:     func(c *Config, _ *driver.Launch) { c.WorkDir = "/proc/no-folder" },
		driver.ErrBootstrap:   func(c *Config, _ *driver.Launch) { c.Setup = []string{"true", "false"} },
		driver.ErrNotFound: func(_ *Config, l *driver.Launch) {
			l.Query.Mounts = []driver.Mount{{Source: "/no/such/data", Target: "/no/such/data"}}
		},
		driver.ErrUnavailable: func(c *Config, _ *driver.Launch) { c.SSHD = "/bin/false" },
	} {
		var l driver.Launch
		r := newRig(t, func(c *Config, _ *cluster) { change(c, &l) })
		r.launch.Query.Mounts = l.Query.Mounts
		in := r.until(r.submit(), "failure", func(in driver.Instance) bool { return in.State == driver.InstanceFailed })
		if in.FailureKind != want {
			t.Errorf("%v, %q; want %v", in.FailureKind, in.StateReason, want)
		}
		r.wantClean()
	}
}

// What Setup exports reaches the sessions, and a mount is a link that goes with the last job that has it.
func TestSetupAndMounts(t *testing.T) {
	data, err := os.MkdirTemp("", "data-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(data)
	link := data + "-link"
	r := newRig(t, func(c *Config, _ *cluster) { c.Setup = []string{`export MODEL='a "b" \ c'`} })
	r.launch.Query.Mounts = []driver.Mount{{Source: data, Target: data}, {Source: data, Target: link}}
	var ids []string
	for i := range 2 {
		r.launch.Nodes[0] = driver.NodeRequest{Name: fmt.Sprint("p1-", i), Rank: i}
		ids = append(ids, r.submit())
		r.until(ids[i], "node", isRunning)
	}
	if at, err := os.Readlink(link); err != nil || at != data {
		t.Errorf("%q, %v", at, err)
	}
	text, err := os.ReadFile(filepath.Join(r.folder(ids[0]), "sshd_config"))
	if err != nil || !strings.Contains(string(text), `"MODEL=a \"b\" \\ c"`) || !strings.Contains(string(text), `"CUDA_VISIBLE_DEVICES=0"`) || strings.Contains(string(text), "FAKE_SLURM") {
		t.Errorf("%s, %v", text, err)
	}
	for i, id := range ids {
		if err := r.driver.Terminate(t.Context(), id); err != nil {
			t.Error(err)
		}
		r.until(id, "end", isTerminated)
		if _, err := os.Lstat(link); (err == nil) != (i == 0) {
			t.Errorf("after the end of job %d the link is there: %v", i, err == nil)
		}
	}
}
