//go:build unix

package docker

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shells are the shells under which the script must run. A shell that this machine lacks is skipped, except in CI.
var shells = []string{"dash", "bash", "busybox ash"}

// A stage is a machine for the script: the commands of this one, but those that the test leaves out or has written.
type stage struct {
	t   *testing.T
	bin string
}

func newStage(t *testing.T) *stage {
	s := &stage{t, t.TempDir()}
	for _, name := range []string{"sh", "env", "cat", "rm", "mkdir", "mktemp", "sleep", "id", "sed", "true", "dash", "bash", "busybox"} {
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(s.bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// command writes a command.
func (s *stage) command(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.bin, name)
	os.Remove(path)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		s.t.Fatal(err)
	}
}

// run runs the script, as a step does, and returns its answer, its output and its status.
func (s *stage) run(shell, text string, args ...string) (answer, output string, status int) {
	s.t.Helper()
	words := append(strings.Fields(shell), "-c", "set -e\nexec 3>&1 1>&2\n"+text, "docker.sh")
	if _, err := exec.LookPath(words[0]); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_SSHD") != "" {
			s.t.Fatal(err)
		}
		s.t.Skip(err)
	}
	path, _ := exec.LookPath(words[0])
	cmd := exec.Command(path, append(words[1:], args...)...)
	cmd.Env = []string{"PATH=" + s.bin, "HOME=" + s.t.TempDir()}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case failed:
		status = exit.ExitCode()
	case err != nil:
		s.t.Fatal(err)
	}
	return stdout.String(), stderr.String(), status
}

// engine writes a docker that answers like a daemon, and runs text for all but its version and removals.
func (s *stage) engine(text string) {
	s.command("docker", `case $1 in
version) echo linux/amd64; exit ;;
rm) exit ;;
esac
`+text)
}

func eachShell(t *testing.T, test func(t *testing.T, shell string)) {
	for _, shell := range shells {
		t.Run(strings.Fields(shell)[0], func(t *testing.T) { test(t, shell) })
	}
}

// A machine without Docker, or whose login may not use it, fails with what is wrong. Nothing is installed without root.
func TestMachinesWithoutDocker(t *testing.T) {
	eachShell(t, func(t *testing.T, shell string) {
		s := newStage(t)
		s.command("id", "echo 1000")
		s.command("apt-get", "echo installed; exit 1")
		if _, out, status := s.run(shell, script, "look", "debian"); status != 101 || strings.Contains(out, "installed") {
			t.Errorf("without Docker: %d, %q", status, out)
		}
		denied := "echo 'Got permission denied while trying to connect to the Docker daemon socket' >&2; exit 1"
		s.command("docker", denied)
		if _, out, status := s.run(shell, script, "look", "debian"); status != 103 || !strings.Contains(out, "ermission denied") {
			t.Errorf("without permission: %d, %q", status, out)
		}
		// With sudo it is allowed, and asked for by sudo from then on.
		s.command("docker", `[ "$AS" = root ] || { `+denied+`; }
[ "$1" != version ] || echo linux/amd64`)
		s.command("sudo", `[ "$1" = -n ] && shift && AS=root exec "$@"`)
		answer, out, status := s.run(shell, script, "look", "debian")
		if want := "engine sudo -n " + s.bin + "/docker\nplatform linux/amd64\n"; status != 0 || answer != want {
			t.Errorf("with sudo: %d, %q, %q", status, answer, out)
		}
	})
}

// Docker is installed by the system's package manager and started, if the login is root.
func TestDockerIsInstalled(t *testing.T) {
	eachShell(t, func(t *testing.T, shell string) {
		s := newStage(t)
		s.command("id", "echo 0")
		s.command("apt-get", `echo "$*" >>`+s.bin+`/apt
case "$*" in *install*docker.io*)
	printf '#!/bin/sh\n[ -e `+s.bin+`/started ] || { echo "Cannot connect to the Docker daemon" >&2; exit 1; }\n[ "$1" != version ] || echo linux/amd64\n' >`+s.bin+`/docker
	`+s.bin+`/chmod 700 `+s.bin+`/docker ;;
esac`)
		path, err := exec.LookPath("chmod")
		if err != nil {
			t.Fatal(err)
		}
		os.Symlink(path, filepath.Join(s.bin, "chmod"))
		s.command("service", `[ "$*" = "docker start" ] && : >`+s.bin+"/started")
		answer, out, status := s.run(shell, script, "look", "debian")
		if status != 0 || !strings.HasPrefix(answer, "engine  "+s.bin+"/docker\nplatform linux/amd64\n") {
			t.Errorf("%d, %q, %q", status, answer, out)
		}
	})
}

// The script gives NVIDIA's GPUs to the container in the first way that the engine knows.
func TestWaysToGPUs(t *testing.T) {
	const (
		noGPUs    = `echo 'could not select device driver "" with capabilities: [[gpu]]' >&2; exit 1`
		noCDI     = `echo 'CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all' >&2; exit 1`
		noRuntime = `echo 'unknown or invalid runtime name: nvidia' >&2; exit 1`
	)
	eachShell(t, func(t *testing.T, shell string) {
		for _, tt := range []struct {
			name, gpus, cdi, runtime string
			wanted                   string
			status                   int
			made                     string // the arguments of the container that runs
		}{
			{"--gpus", ":", noCDI, noRuntime, "1", 0, "--gpus all"},
			{"CDI", noGPUs, ":", noRuntime, "1", 0, "--device nvidia.com/gpu=all"},
			{"runtime", noGPUs, noCDI, ":", "1", 0, "--runtime nvidia"},
			{"none, and wanted", noGPUs, noCDI, noRuntime, "1", 111, ""},
			{"none, and not wanted", noGPUs, noCDI, noRuntime, "0", 0, "--ulimit memlock=-1"},
			{"another failure", "echo 'no space left on device' >&2; exit 1", ":", ":", "1", 107, ""},
		} {
			s := newStage(t)
			s.command("id", "echo 1000") // no toolkit can be installed
			device, file := filepath.Join(s.bin, "nvidiactl"), filepath.Join(s.bin, "request")
			if err := os.WriteFile(device, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s.engine(`case "$*" in
*"--gpus all"*) ` + tt.gpus + ` ;;
*nvidia.com/gpu*) ` + tt.cdi + ` ;;
*"--runtime nvidia"*) ` + tt.runtime + ` ;;
esac
[ "$1" != create ] || echo "$*" >` + s.bin + `/made`)
			text := strings.ReplaceAll(script, "/dev/nvidiactl", device)
			_, out, status := s.run(shell, text, "start", "box", file, tt.wanted, "", "--name", "box", "image")
			made, _ := os.ReadFile(filepath.Join(s.bin, "made"))
			if status != tt.status || status == 0 && !strings.HasPrefix(string(made), "create --init "+tt.made) {
				t.Errorf("%s: %d, with %q: %s", tt.name, status, made, out)
			}
			for name, want := range map[string]bool{".begun": true, ".done": tt.status == 0} {
				if _, err := os.Stat(file + name); (err == nil) != want {
					t.Errorf("%s: %s is there: %v", tt.name, name, err == nil)
				}
			}
		}
	})
}

// A pull tells failures apart by what Docker says.
func TestPullFailures(t *testing.T) {
	for said, want := range map[string]int{
		"unauthorized: authentication required":                                                     104,
		"pull access denied for x, repository does not exist or may require 'docker login'":         104,
		"Head \"https://x/v2/y\": no basic auth credentials":                                        104,
		"manifest for x:1 not found: manifest unknown: manifest unknown":                            105,
		"no matching manifest for linux/amd64 in the manifest list entries":                         106,
		"failed to register layer: write /usr/lib/x: no space left on device":                       107,
		"toomanyrequests: You have reached your pull rate limit":                                    109,
		"error getting credentials - err: exec: \"docker-credential-x\": executable file not found": 112,
	} {
		s := newStage(t)
		s.engine(`[ "$1" != pull ] || { echo 'Error response from daemon: ` + strings.ReplaceAll(said, "'", `'\''`) + `' >&2; exit 1; }`)
		if _, out, status := s.run("sh", script, "pull", "node", s.bin, "x:1", ""); status != want || !strings.Contains(out, said) {
			t.Errorf("%s: %d, want %d: %s", said, status, want, out)
		}
	}
}
