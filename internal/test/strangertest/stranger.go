//go:build unix

package strangertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// UID is the stranger's user and group ID. No account and no file of a test has it.
const UID = 60123

// Need skips a test that does not run as root, because it cannot start processes as another user. If
// GPUTRAIN_REQUIRE_ROOT is set, the test fails instead.
func Need(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("GPUTRAIN_REQUIRE_ROOT") != "" {
		t.Fatal("another user attacks in this test, and GPUTRAIN_REQUIRE_ROOT is set: run it as root")
	}
	t.Skip("another user attacks in this test: run it as root")
}

// Command returns a shell script that runs as the stranger, with args as $1 and so on.
func Command(t testing.TB, script string, args ...string) *exec.Cmd {
	t.Helper()
	Need(t)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: UID, Gid: UID}}
	return cmd
}

// Run runs a script as the stranger and returns its output. The script must succeed.
func Run(t testing.TB, script string, args ...string) string {
	t.Helper()
	cmd := Command(t, script, args...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the stranger's script: %v: %s%s", err, out, complaint.String())
	}
	return string(out)
}

// Start starts a process as the stranger, with these variables in its environment, and returns its process ID. The
// process runs until the test ends.
func Start(t testing.TB, env ...string) int {
	t.Helper()
	cmd := Command(t, "exec sleep 1000")
	cmd.Env = append(cmd.Env, env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	awaitSleep(t, cmd.Process.Pid)
	return cmd.Process.Pid
}

// awaitSleep waits until a process has become the program sleep. Just before that, its arguments and its environment
// cannot be read.
func awaitSleep(t testing.TB, pid int) {
	t.Helper()
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		return // there is no /proc
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if strings.HasPrefix(string(line), "sleep\x00") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is not sleep, but %q", pid, line)
		}
	}
}

// Sleeping starts a process as this user, with these variables in its environment, and returns its process ID. It runs
// until the test ends, and is reaped as soon as it ends.
func Sleeping(t testing.TB, env ...string) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { cmd.Wait(); close(over) }()
	t.Cleanup(func() { cmd.Process.Kill(); <-over })
	awaitSleep(t, cmd.Process.Pid)
	return cmd.Process.Pid
}

// Lives reports whether a process from Start still runs.
func Lives(t testing.TB, pid int) bool {
	t.Helper()
	return exec.Command("sh", "-c", `read -r _ _ state _ </proc/$1/stat && [ "$state" != Z ]`, "sh", strconv.Itoa(pid)).Run() == nil
}

// Shared makes a folder in which every user can make files, like /tmp.
func Shared(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o777 | os.ModeSticky} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Opens returns the relative paths of everything in a folder that the stranger can read, write or list, except for the
// folder itself.
func Opens(t testing.TB, dir string) []string {
	t.Helper()
	out := Run(t, `find "$1" -mindepth 1 2>/dev/null | while IFS= read -r f; do
	if [ -d "$f" ]; then ls "$f" >/dev/null 2>&1 || (: >"$f/stranger") 2>/dev/null
	else (: <"$f") 2>/dev/null || (: >>"$f") 2>/dev/null; fi && echo "$f"
done; :`, dir)
	return strings.Fields(out)
}

// Owner returns the user ID of a file's owner.
func Owner(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }
