//go:build unix

package preflight

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A place runs commands by a prefix of words, with an environment.
type place struct {
	prefix []string
	env    []string
}

func (p place) ExecMoving(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	words := append(p.prefix, command)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.env, stdin, stdout, stderr
	cmd.WaitDelay = time.Second
	return cmd.Run()
}

// here returns a place on this computer where sh is a shell, and that has only some tools beside what scripts always need.
func here(t *testing.T, shell string, tools ...string) place {
	t.Helper()
	bin := t.TempDir()
	link := func(name, to string) {
		path, err := exec.LookPath(to)
		if to == "python3" && err == nil { // python3 may be a script that looks for the real one
			var out []byte
			out, err = exec.Command(to, "-c", "import sys; print(sys.executable)").Output()
			path = strings.TrimSpace(string(out))
		}
		if err != nil {
			if os.Getenv("GPUTRAIN_REQUIRE_SSHD") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
		if strings.HasPrefix(to, "python3") { // by a link it would not find its library
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nexec "+path+" \"$@\"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			return
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("sh", shell)
	for _, name := range append([]string{"cat", "date", "df", "head", "grep", "sleep", "mktemp", "rm", "tr", "cut", "timeout", "sed"}, tools...) {
		link(name, name)
	}
	return place{[]string{filepath.Join(bin, "sh"), "-c"}, []string{"PATH=" + bin, "HOME=" + t.TempDir()}}
}

const image = "gputrain-debian:bookworm"

// A box is a container with the image's tools, and busybox.
type box struct {
	id, addr string
}

// boxes starts n containers on a network of their own, and removes both at the end of the test.
func boxes(t *testing.T, name string, n int) (all []box) {
	t.Helper()
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts containers")
	}
	needDocker(t)
	const label = "gputrain.test=preflight"
	network := docker(t, "network", "create", "--label", label, "gputrain-preflight-"+name+"-"+strings.ToLower(filepath.Base(t.TempDir()))+time.Now().Format("150405.000000"))
	t.Cleanup(func() { docker(t, "network", "rm", network) })
	for range n {
		id := docker(t, "run", "--detach", "--init", "--cap-add", "NET_ADMIN", "--label", label, "--network", network, image, "sleep", "600")
		t.Cleanup(func() { docker(t, "rm", "--force", id) })
		addr := docker(t, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", id)
		if id == "" || addr == "" {
			t.FailNow()
		}
		all = append(all, box{id, addr})
	}
	return all
}

// place returns the box as a place.
func (b box) place() place {
	return place{[]string{"docker", "exec", "--interactive", b.id, "sh", "-c"}, os.Environ()}
}

// run runs a command in the box.
func (b box) run(t *testing.T, command string) string {
	t.Helper()
	return docker(t, "exec", b.id, "sh", "-c", command)
}

// gang returns the boxes as nodes.
func gang(all []box) (nodes []Node) {
	for i, b := range all {
		nodes = append(nodes, Node{Rank: i, Addr: b.addr, Commands: b.place()})
	}
	return nodes
}

// needDocker skips a test without Docker and the image, or fails it if GPUTRAIN_REQUIRE_DOCKER is set.
func needDocker(t *testing.T) {
	t.Helper()
	if err := exec.Command("docker", "image", "inspect", image).Run(); err != nil {
		const missing = "no Docker with " + image + " here: scripts/container-image makes it"
		if os.Getenv("GPUTRAIN_REQUIRE_DOCKER") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Errorf("docker %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
