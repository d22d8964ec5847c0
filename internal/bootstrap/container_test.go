//go:build unix

package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/supervisor"
)

// A containerNode is a node in a container.
type containerNode struct {
	t    *testing.T
	id   string
	base map[string]string
	path []string
}

// homeMade is the image that scripts/container-image makes.
const homeMade = "gputrain-debian:bookworm"

func newContainer(t *testing.T, network string) *containerNode {
	t.Helper()
	if err := exec.Command("docker", "image", "inspect", homeMade).Run(); err != nil {
		const without = "no Docker with " + homeMade + " here: scripts/container-image --force makes it"
		if os.Getenv("GPUTRAIN_REQUIRE_DOCKER") != "" {
			t.Fatal(without)
		}
		t.Skip(without)
	}
	n := &containerNode{t: t}
	n.id = n.docker("run", "--detach", "--init", "--network", network, homeMade, "sleep", "600")
	t.Cleanup(func() {
		if out, err := exec.Command("docker", "rm", "--force", n.id).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	n.docker("exec", n.id, "mkdir", "-p", n.Facts().WorkDir)
	return n
}

func (n *containerNode) docker(args ...string) string {
	n.t.Helper()
	var complaint bytes.Buffer
	cmd := exec.Command("docker", args...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatalf("docker %q: %v\n%s%s", args, err, out, complaint.String())
	}
	return strings.TrimSpace(string(out))
}

func (n *containerNode) Facts() supervisor.Facts {
	return supervisor.Facts{OS: "linux", Arch: "amd64", Home: "/root", Root: "/root/pool", WorkDir: "/root/pool/work", CacheDir: "/root/.gputrain/cache"}
}

func (n *containerNode) SetBase(env map[string]string, path []string) { n.base, n.path = env, path }

func (n *containerNode) Run(ctx context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
	args := []string{"exec", "--interactive", "--workdir", n.Facts().WorkDir}
	for _, env := range []map[string]string{n.base, spec.Env, spec.Secrets} {
		for name, value := range env {
			args = append(args, "--env", name+"="+value)
		}
	}
	if len(n.path) > 0 {
		args = append(args, "--env", "PATH="+strings.Join(n.path, ":")+":/usr/local/bin:/usr/bin:/bin")
	}
	cmd := exec.CommandContext(ctx, "docker", append(append(args, n.id), spec.Args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = spec.Stdin, sinks.Stdout, sinks.Stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return supervisor.Exit{Cause: supervisor.Exited, Code: exit.ExitCode()}, nil
	}
	return supervisor.Exit{Cause: supervisor.Exited}, err
}

func (n *containerNode) upload(_ context.Context, local, remote string) error {
	n.docker("exec", n.id, "mkdir", "-p", path.Dir(remote))
	n.docker("cp", local, n.id+":"+remote)
	return nil
}

func (n *containerNode) task(command string) string {
	n.t.Helper()
	var out bytes.Buffer
	if exit, err := n.Run(n.t.Context(), supervisor.Spec{Args: []string{"sh", "-c", command}}, supervisor.Sinks{Stdout: &out, Stderr: &out}); err != nil || exit.Code != 0 {
		n.t.Fatalf("%q: %+v, %v\n%s", command, exit, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

// A bare Debian, with neither Python nor a network, has a Python when it is ready.
func TestBareContainer(t *testing.T) {
	n := newContainer(t, "none")
	n.task("rm -f /usr/bin/python3* /usr/bin/perl /usr/bin/tar /usr/bin/gzip")
	s := released(t)
	var d diary
	opts := d.fetching(s)
	opts.Upload = n.upload
	img := Image{Python: "3.12", Env: map[string]string{"UV_PYTHON_INSTALL_MIRROR": "https://mirror.example"}}
	if err := Run(t.Context(), n, noSync, img, opts); err != nil {
		t.Fatalf("%v\n%s", err, d.output.String())
	}
	if got := n.task("python --version; ls -A ~/.gputrain/cache; ls -A ~ | grep -v '^[.]bash\\|^[.]profile'"); got != "Python 3.12\nphases\nuv\n"+path.Base(n.base["VIRTUAL_ENV"])+"\n.gputrain\npool" {
		t.Errorf("the container has %q", got)
	}
}

// A Debian whose Python cannot make environments with pip fetches uv by that Python, and installs what is asked for.
func TestContainerWithoutEnsurepip(t *testing.T) {
	n := newContainer(t, "host")
	n.task("rm -rf /usr/lib/python3*/ensurepip /usr/bin/perl; command -v python3; ! command -v curl; ! command -v wget")
	s := released(t)
	files := write(t, map[string]string{"requirements.txt": "-r more.txt\n", "more.txt": "tinydist\n"})
	var d diary
	opts := d.fetching(s)
	img := Image{
		Before:       []string{"mkdir -p /srv"},
		Requirements: filepath.Join(files, "requirements.txt"),
		Setup:        []string{"cat installed >second"},
		Env:          map[string]string{"STAND_IN": "records"},
	}
	if err := Run(t.Context(), n, noSync, img, opts); err != nil {
		t.Fatalf("%v\n%s", err, d.output.String())
	}
	if got := n.task("cat installed second; python -c 'import sys; print(sys.prefix != sys.base_prefix)'"); got != "-r 1-more.txt tinydist\n-r 1-more.txt tinydist\nTrue" {
		t.Errorf("the container has %q", got)
	}
	if s.Requests() != 1 {
		t.Error("uv was not fetched by the node")
	}
}
