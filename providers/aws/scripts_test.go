//go:build linux

package aws

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// The preemption watch asks the metadata service with a token.
func TestPreemptionWatch(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_CURL") != "" {
			t.Fatal("there is no curl, and GPUTRAIN_REQUIRE_CURL is set")
		}
		t.Skip("no curl on this machine: install curl")
	}
	var action atomic.Value
	action.Store("")
	imds := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == "PUT" && r.URL.Path == "/latest/api/token" && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") != "":
			fmt.Fprint(w, "the-token")
		case r.Header.Get("X-aws-ec2-metadata-token") != "the-token":
			w.WriteHeader(401)
		case r.URL.Path != "/latest/meta-data/spot/instance-action" || action.Load() == "":
			w.WriteHeader(404)
		default:
			fmt.Fprint(w, action.Load())
		}
	}))
	defer imds.Close()
	text := (&awsDriver{}).Scripts(driver.Instance{}).PreemptionWatch
	look := func(at string) string {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", text)
		cmd.Env = append(os.Environ(), "imds="+at)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := look(imds.URL); got != "" {
		t.Errorf("without a notice it prints %q", got)
	}
	action.Store(fmt.Sprintf(`{"action": "terminate", "time": %q}`, time.Now().Add(100*time.Second).UTC().Format(time.RFC3339)))
	if left, err := strconv.Atoi(look(imds.URL)); err != nil || left < 80 || left > 100 {
		t.Errorf("%d, %v", left, err)
	}
	for _, odd := range []string{`{"action":"terminate"}`, "<html>", `{"time":"soon"}`} {
		action.Store(odd)
		if got := look(imds.URL); got != "" {
			t.Errorf("%s: %q", odd, got)
		}
	}
	action.Store(`{"action":"terminate","time":"2020-01-01T00:00:00Z"}`)
	if got := look(imds.URL); got != "0" {
		t.Errorf("%q", got)
	}
	imds.Close()
	if got := look(imds.URL); got != "" {
		t.Errorf("%q", got)
	}
}

// A node that no program takes over shuts down. A node that is taken over does not.
func TestUnclaimed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shutdown"), []byte("#!/bin/sh\necho \"$@\" >"+dir+"/down\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(node string) bool {
		os.Remove(filepath.Join(dir, "down"))
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "node="+cloud.Quote(node)+" wait=0\n"+cloud.Script(unclaimedScript))
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		text, err := os.ReadFile(filepath.Join(dir, "down"))
		return err == nil && string(text) == "-h now\n"
	}
	name := "aws-unclaimed-" + strconv.Itoa(os.Getpid())
	if !run(name) {
		t.Error("an unclaimed node does not shut down")
	}
	taken := exec.CommandContext(t.Context(), "sleep", "60")
	taken.Env = []string{"GPUTRAIN_NODE=" + name}
	if err := taken.Start(); err != nil {
		t.Fatal(err)
	}
	defer taken.Wait()
	defer taken.Process.Kill()
	if run(name) {
		t.Error("a node that is taken over shuts down")
	}
}
