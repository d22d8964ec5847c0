//go:build linux

package kubernetes

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A started script is node.sh with a stand-in for sshd, which says what it was given.
type startedScript struct {
	cmd *exec.Cmd
	run string // its folder
	out *bytes.Buffer
}

// startScript starts node.sh as another user would, so that nothing of this computer is touched.
func startScript(t *testing.T, grace, lease int, sshd string, env ...string) *startedScript {
	t.Helper()
	return startText(t, nodeScript, grace, lease, sshd, env...)
}

// startText starts a script that is made of node.sh.
func startText(t *testing.T, script string, grace, lease int, sshd string, env ...string) *startedScript {
	t.Helper()
	dir := t.TempDir()
	s := &startedScript{run: filepath.Join(dir, "run"), out: &bytes.Buffer{}}
	write := func(name, text string, mode os.FileMode) {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), mode)); err != nil {
			t.Fatal(err)
		}
	}
	write("secret/host_key", "KEY\n", 0o400)
	write("secret/authorized_keys", "ssh-ed25519 AAAA pool\n", 0o400)
	write("secret/sshd_config", "Port 2222\n"+sshdConfig, 0o400)
	if sshd != "" {
		write("bin/sshd", "#!/bin/sh\n"+sshd+"\n", 0o755)
	}
	s.cmd = exec.Command("sh", "-c", "user=gputrain\nnode=of-no-process\nlease="+strconv.Itoa(lease)+"\ngrace="+strconv.Itoa(grace)+"\n"+script)
	s.cmd.Env = append([]string{"PATH=" + filepath.Join(dir, "bin") + ":/usr/bin:/bin", "GPUTRAIN_POD_SECRET=" + filepath.Join(dir, "secret"), "GPUTRAIN_POD_RUN=" + s.run}, env...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	return s
}

const standIn = `echo "$@" >"$GPUTRAIN_POD_RUN/up.new"; mv "$GPUTRAIN_POD_RUN/up.new" "$GPUTRAIN_POD_RUN/up"; exec sleep 1000`

// until waits for a file of the script, and returns its text.
func (s *startedScript) until(t *testing.T, name string) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(filepath.Join(s.run, name)); err == nil {
			return string(text)
		}
	}
	t.Fatalf("no %s", name)
	return ""
}

func (s *startedScript) code(t *testing.T) int {
	t.Helper()
	err := s.cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}

// A pod that is told to end says until when it goes on, and fails. Its end would seem a success with
// sshd's own code.
func TestToldToEnd(t *testing.T) {
	t.Parallel()
	s := startScript(t, 6, 1000, standIn)
	if args := s.until(t, "up"); !strings.HasPrefix(args, "-e -f "+s.run+"/sshd_config -D") {
		t.Errorf("sshd gets %q", args)
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	end, err := strconv.ParseInt(strings.TrimSpace(s.until(t, "preempted")), 10, 64)
	if left := time.Until(time.Unix(end, 0)); err != nil || left > 4*time.Second {
		t.Errorf("%v are left (%v)", left, err)
	}
	watch := exec.Command("sh", "-c", watchNotice)
	watch.Env = append(os.Environ(), "GPUTRAIN_POD_RUN="+s.run)
	if out, err := watch.Output(); err != nil || strings.Trim(string(out), "0123\n") != "" || len(out) == 0 {
		t.Errorf("the watch prints %q, %v", out, err)
	}
	if code := s.code(t); code != exitTold {
		t.Errorf("code %d; want %d\n%s", code, exitTold, s.out)
	}
}

// A pod that ends itself succeeds, and at once.
func TestEndsItself(t *testing.T) {
	t.Parallel()
	s := startScript(t, 1000, 1000, standIn)
	s.until(t, "up")
	if end := s.until(t, "end"); !strings.Contains(end, "kill -USR1 1;") {
		t.Errorf("the end is %q", end)
	}
	s.cmd.Process.Signal(syscall.SIGUSR1)
	if code := s.code(t); code != exitOwn {
		t.Errorf("code %d\n%s", code, s.out)
	}
}

// A node that no program takes over ends itself after a lease.
func TestUnclaimed(t *testing.T) {
	t.Parallel()
	s := startScript(t, 1000, 1, standIn)
	if code := s.code(t); code != exitOwn || !strings.Contains(s.out.String(), "no program has come within 1 seconds") {
		t.Errorf("code %d\n%s", code, s.out)
	}
}

// The notice is empty, and the end harmless, where there is no pod.
func TestScriptsOutsideOfAPod(t *testing.T) {
	t.Parallel()
	for _, script := range []string{watchNotice, selfDestruct} {
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = append(os.Environ(), "GPUTRAIN_POD_RUN="+t.TempDir())
		if out, _ := cmd.Output(); len(out) > 0 {
			t.Errorf("%s prints %q", script, out)
		}
	}
}

// An SSH server that ends by itself is a failure, and so is an image without one.
func TestNoServer(t *testing.T) {
	t.Parallel()
	for sshd, want := range map[string]string{"exit 0": "has ended with code 0", "": "image: it has no SSH server"} {
		if _, err := exec.LookPath("sshd"); sshd == "" && err == nil {
			continue // this computer's own would be started
		}
		s := startScript(t, 5, 1000, sshd)
		if code := s.code(t); code != 70 || !strings.Contains(s.out.String(), want) {
			t.Errorf("code %d: %s", code, s.out)
		}
	}
}

// A script that ends right after it has forked ends what it has forked: a shell that was just forked may lose a TERM.
func TestEndsRightAfterAFork(t *testing.T) {
	t.Parallel()
	at := "claims=$!\n"
	if strings.Count(nodeScript, at) != 1 {
		t.Fatalf("the script does not have %q once", at)
	}
	for _, soon := range []string{at + "stop; exit 0\n", "kill -USR1 $$\n" + at} { // the child has its name, or not yet
		for range 20 {
			s := startText(t, strings.Replace(nodeScript, at, soon, 1), 5, 1000, standIn)
			s.cmd.WaitDelay = 20 * time.Second // its children have its stdout
			if err := s.cmd.Wait(); err != nil {
				t.Fatalf("it has left a child: %v\n%s", err, s.out)
			}
		}
	}
}

// Sessions get the image's environment, which sshd would hide, as options of each key.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	s := startScript(t, 5, 1000, standIn, `QUOTED=say "hi"`, "LINES=a\nFAKE=b", `SLASH=a\`, "NVIDIA_VISIBLE_DEVICES=all", "KUBERNETES_PORT=x", "HOME=/x")
	s.until(t, "up")
	keys := s.until(t, "authorized_keys")
	for _, want := range []string{`environment="QUOTED=say \"hi\""`, `environment="NVIDIA_VISIBLE_DEVICES=all"`, "/bin:/usr/bin:/bin\"", " ssh-ed25519 AAAA pool\n"} {
		if !strings.Contains(keys, want) {
			t.Errorf("%q lacks %q", keys, want)
		}
	}
	for _, not := range []string{"LINES", "SLASH", "KUBERNETES", "HOME", "GPUTRAIN", "sbin"} {
		if strings.Contains(keys, not) {
			t.Errorf("%q has %q", keys, not)
		}
	}
	for name, want := range map[string]os.FileMode{"host_key": 0o600, "authorized_keys": 0o600} {
		if st, err := os.Stat(filepath.Join(s.run, name)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	if config := s.until(t, "sshd_config"); !strings.Contains(config, "HostKey "+s.run+"/host_key") {
		t.Errorf("%s", config)
	}
}
