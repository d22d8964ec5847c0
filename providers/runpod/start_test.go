//go:build unix

package runpod

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	xssh "golang.org/x/crypto/ssh"
)

// The test runs in the first of testImages that exists. Only the one that
// scripts/container-image makes is sure to have an SSH server.
var testImages = []string{"gputrain-debian:bookworm", "debian:bookworm-slim"}

// testImage returns an image for the test, and skips the test if there is none.
func testImage(t *testing.T) string {
	t.Helper()
	for _, image := range testImages {
		if exec.Command("docker", "run", "--rm", "--pull", "never", image, "sh", "-c", "command -v sshd || test -x /usr/sbin/sshd").Run() == nil {
			return image
		}
	}
	why := fmt.Sprintf("none of %q is here with an SSH server: run scripts/container-image --force", testImages)
	if os.Getenv("GPUTRAIN_REQUIRE_DOCKER") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// curlStub replaces curl in a container, and records its arguments and input.
const curlStub = `#!/bin/sh
{ echo "$@"; cat; } >/tmp/calling && mv /tmp/calling /tmp/called
printf 204
`

// A pod's start command, run in a container, starts SSH, and removes a pod that no
// program takes over.
func TestStart(t *testing.T) {
	image := testImage(t)
	f := startFake(t)
	d := open(t, f.config()).(*podDriver)
	req := request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 2)
	client := keyPair(t)
	req.Pool.AuthorizedKey = client.Public
	env := d.api.environment(req.Pool, req.Offer.ID, req.Nodes, time.Now())
	env["GPUTRAIN_FIRST_DEADLINE"], env["GPUTRAIN_READY_DEADLINE"], env["NODE_RANK"] = "3600", "2", "1" // as the second member of a cluster
	env["RUNPOD_POD_ID"], env["RUNPOD_API_KEY"], env["FROM_IMAGE"], env["HOME"] = "podx", "rpa_POD_x", "yes sir", "/elsewhere"

	stub := filepath.Join(t.TempDir(), "curl")
	if err := os.WriteFile(stub, []byte(curlStub), 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "--detach", "--pull", "never", "--publish", "127.0.0.1::22", "--volume", stub + ":/usr/local/bin/curl:ro"}
	for name, value := range env {
		args = append(args, "--env", name+"="+value)
	}
	// RunPod splits the command at blanks and removes the quotes.
	before, script, _ := strings.Cut(strings.TrimSuffix(startCommand(), "'"), "'")
	args = append(append(append(args, image), strings.Fields(before)...), script)
	id := strings.TrimSpace(docker(t, args...))
	t.Cleanup(func() { exec.Command("docker", "rm", "--force", "--volumes", id).Run() })
	addr := strings.TrimSpace(docker(t, "port", id, "22/tcp"))

	key, err := xssh.ParsePrivateKey([]byte(client.Private))
	if err != nil {
		t.Fatal(err)
	}
	want, _, _, _, err := xssh.ParseAuthorizedKey([]byte(req.Nodes[1].HostKey.Public))
	if err != nil {
		t.Fatal(err)
	}
	var ssh *xssh.Client
	await(t, "SSH", func() error {
		ssh, err = xssh.Dial("tcp", addr, &xssh.ClientConfig{
			User: "root", Auth: []xssh.AuthMethod{xssh.PublicKeys(key)}, HostKeyCallback: xssh.FixedHostKey(want), Timeout: 5 * time.Second,
		})
		return err
	})
	defer ssh.Close()
	session, err := ssh.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := session.Output(`echo "$FROM_IMAGE, $NODE_RANK, ${RUNPOD_API_KEY-no key}, ${GPUTRAIN_HOST_KEY-no host key}, $HOME"`)
	if want := "yes sir, 1, no key, no host key, /root\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v", out, err)
	}
	await(t, "the first deadline", func() error {
		called, err := exec.Command("docker", "exec", id, "cat", "/tmp/called").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, called)
		}
		said := string(called)
		if !strings.Contains(said, "-X DELETE "+f.URL+"/v2/pods/podx\n") || !strings.Contains(said, `header = "Authorization: Bearer rpa_POD_x"`) {
			t.Errorf("%s", said)
		}
		return nil
	})
}

// await tries for a minute until there is no error.
func await(t *testing.T, what string, try func() error) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("docker", args...)
	var diagnosis strings.Builder
	cmd.Stderr = &diagnosis
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", args[0], err, diagnosis.String())
	}
	return string(out)
}
