//go:build unix

package runpod

import (
	"encoding/base64"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

// Every shell that an image may have reads what a pod runs.
func TestScriptsAreShell(t *testing.T) {
	d := &driver{cfg: Config{Endpoint: "https://it's.example"}}
	for _, shell := range [][]string{{"sh"}, {"dash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err != nil {
			continue
		}
		for _, text := range []string{startScript, d.destruct(), d.SelfDestruct(gputrain.Instance{})} {
			cmd := exec.Command(shell[0], append(shell[1:], "-n")...)
			cmd.Stdin = strings.NewReader(text)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %v: %s", shell, err, out)
			}
		}
	}
	if command := startCommand(); strings.Count(command, "'") != 2 || strings.Contains(command, `"`) || len(command) > 8<<10 {
		t.Errorf("RunPod would split it otherwise: %q", command)
	}
}

// A machine ends itself with its own key, which is in none of its arguments.
func TestSelfDestruct(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("needs curl, which the start script installs on a pod")
	}
	f := startFake(t)
	d := open(t, f.config())
	in := launchOne(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, false)
	text := d.(gputrain.SelfDestructor).SelfDestruct(in)
	for _, secret := range []string{testKey, podKey(in.ID), in.ID} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in it", secret)
		}
	}
	for range 2 { // the second time it is gone already
		cmd := exec.CommandContext(t.Context(), "sh", "-c", text)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "RUNPOD_POD_ID=" + in.ID, "RUNPOD_API_KEY=" + podKey(in.ID)}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if live := f.live(); len(live) > 0 {
			t.Fatalf("left: %v", live)
		}
	}
}

// What a pod needs to end itself before anybody has reached it is in its environment.
func TestDeadlines(t *testing.T) {
	f := startFake(t)
	cfg := f.config()
	cfg.ProvisionTimeout = 5 * time.Minute
	d := open(t, cfg).(*driver)
	req := request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 1)
	now := time.Now()
	env := d.environment(req, req.Nodes, now)
	if env["GPUTRAIN_FIRST_DEADLINE"] != "360" || env["GPUTRAIN_LAST_DEADLINE"] != "" {
		t.Errorf("%v", env)
	}
	for ttl, want := range map[time.Duration]string{time.Hour: "4200", -time.Hour: "600"} {
		req.Pool.Expires = now.Add(ttl)
		if got := d.environment(req, req.Nodes, now)["GPUTRAIN_LAST_DEADLINE"]; got != want {
			t.Errorf("after %v: %s", ttl, got)
		}
	}
	text, err := base64.StdEncoding.DecodeString(env["GPUTRAIN_DESTRUCT"])
	if err != nil || string(text) != d.destruct() || len(env) > 50 {
		t.Errorf("%d variables, %s, %v", len(env), text, err)
	}
}
