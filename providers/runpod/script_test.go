//go:build unix

package runpod

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// Every shell that an image may have can parse a pod's scripts.
func TestScriptsAreShell(t *testing.T) {
	d := &podDriver{api: &api{cfg: Config{PodEndpoint: "https://it's.example"}}}
	for _, shell := range [][]string{{"sh"}, {"dash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err != nil {
			continue
		}
		for _, text := range []string{startScript, d.api.destruct(), d.Scripts(driver.Instance{}).SelfDestruct} {
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

// A machine removes itself with its own key, which is in none of its arguments. It
// tries until RunPod accepts: a 404 is no success, as the machine still runs.
func TestSelfDestruct(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl on this machine, which the start script installs on a pod: install curl")
	}
	f := startFake(t)
	d := open(t, f.config())
	in := launchOne(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, false)
	text := d.(driver.Scripter).Scripts(in).SelfDestruct
	for _, secret := range []string{testKey, podKey(in.ID), in.ID} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in it", secret)
		}
	}
	hasty := t.TempDir()
	if err := os.WriteFile(filepath.Join(hasty, "sleep"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.Inject(faultAnswer(opDelete, 1, 404, `{"title":"Not Found","status":404,"detail":"pod not found"}`))
	f.Inject(faultAnswer(opDelete, 1, 503, ""))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", text)
	cmd.Env = []string{"PATH=" + hasty + ":" + os.Getenv("PATH"), "RUNPOD_POD_ID=" + in.ID, "RUNPOD_API_KEY=" + podKey(in.ID)}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if live, calls := f.live(), f.Records(opDelete); len(live) > 0 || len(calls) != 3 {
		t.Errorf("left: %v, after %d calls", live, len(calls))
	}
}

// Pods call RunPod itself: they cannot reach a proxy on the program's own computer.
func TestPodsCallRunPodItself(t *testing.T) {
	d := open(t, Config{APIKey: testKey, Endpoint: startFake(t).URL})
	if text := d.(driver.Scripter).Scripts(driver.Instance{}).SelfDestruct; !strings.Contains(text, defaultEndpoint) || strings.Contains(text, "127.0.0.1") {
		t.Error(text)
	}
}

// A pod's environment has all that the pod needs to end itself before a program has reached it.
func TestDeadlines(t *testing.T) {
	f := startFake(t)
	cfg := f.config()
	cfg.ProvisionTimeout, cfg.InstanceTimeout, cfg.BootstrapTimeout = 5*time.Minute, time.Minute, 7*time.Minute
	d := open(t, cfg).(*podDriver)
	if caps := d.Capabilities(); caps.ProvisionTimeout != cfg.ProvisionTimeout || caps.BootstrapTimeout != cfg.BootstrapTimeout {
		t.Errorf("%+v", caps)
	}
	req := request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 1)
	now := time.Now()
	env := d.api.environment(req.Pool, req.Offer.ID, req.Nodes, now)
	if env["GPUTRAIN_FIRST_DEADLINE"] != "360" || env["GPUTRAIN_READY_DEADLINE"] != "60" || env["GPUTRAIN_LAST_DEADLINE"] != "" {
		t.Errorf("%v", env)
	}
	for ttl, want := range map[time.Duration]string{time.Hour: "4200", -time.Hour: "600"} {
		req.Pool.Expires = now.Add(ttl)
		if got := d.api.environment(req.Pool, req.Offer.ID, req.Nodes, now)["GPUTRAIN_LAST_DEADLINE"]; got != want {
			t.Errorf("after %v: %s", ttl, got)
		}
	}
	text, err := base64.StdEncoding.DecodeString(env["GPUTRAIN_DESTRUCT"])
	if err != nil || string(text) != d.api.destruct() || len(env) > 50 {
		t.Errorf("%d variables, %s, %v", len(env), text, err)
	}
}
