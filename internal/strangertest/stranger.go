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

// UID is the stranger's user, and group. No account has it, and no test's file.
const UID = 60123

// Need skips a test where this is not root, and no other user can be had. Where
// GPUTRAIN_REQUIRE_ROOT is set it fails.
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

// Command is a shell script that the stranger runs: $1 and so on are args.
func Command(t testing.TB, script string, args ...string) *exec.Cmd {
	t.Helper()
	Need(t)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: UID, Gid: UID}}
	return cmd
}

// Run runs a script as the stranger, which must succeed, and returns what it prints.
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

// Start starts a process of the stranger that has these variables in its environment
// and runs until the test ends, and returns its number.
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

// awaitSleep waits until a process has become the program sleep. On its way there it shows
// neither its arguments nor its environment for a moment.
func awaitSleep(t testing.TB, pid int) {
	t.Helper()
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		return // its environment is not to be seen here
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

// Sleeping starts a process of this user, not the stranger's, that has these variables in
// its environment. It runs until the test ends, and is waited for as soon as it ends. Its
// number is returned.
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

// Lives reports whether a process that Start has started still runs.
func Lives(t testing.TB, pid int) bool {
	t.Helper()
	return exec.Command("sh", "-c", `read -r _ _ state _ </proc/$1/stat && [ "$state" != Z ]`, "sh", strconv.Itoa(pid)).Run() == nil
}

// Shared makes a folder in which every user can make files, as /tmp is one.
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

// Opens returns what the stranger can read, write or list of all that is in a folder,
// by its paths, but for the folder itself.
func Opens(t testing.TB, dir string) []string {
	t.Helper()
	out := Run(t, `find "$1" -mindepth 1 2>/dev/null | while IFS= read -r f; do
	if [ -d "$f" ]; then ls "$f" >/dev/null 2>&1 || (: >"$f/stranger") 2>/dev/null
	else (: <"$f") 2>/dev/null || (: >>"$f") 2>/dev/null; fi && echo "$f"
done; :`, dir)
	return strings.Fields(out)
}

// Owner returns whose a file is.
func Owner(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }
