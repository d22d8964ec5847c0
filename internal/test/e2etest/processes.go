//go:build unix

package e2etest

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Stop suspends every process of the host, including sshd, like a machine that is suspended.
func (h *OwnHost) Stop(t testing.TB) {
	t.Helper()
	for range 3 { // to catch processes that were started meanwhile
		h.signal(syscall.SIGSTOP)
	}
	if len(h.pids()) == 0 {
		t.Fatal("nothing runs on the host, or there is no /proc")
	}
	t.Cleanup(h.Resume)
}

// Resume continues the suspended processes.
func (h *OwnHost) Resume() { h.signal(syscall.SIGCONT) }

func (h *OwnHost) signal(s syscall.Signal) {
	for _, pid := range h.pids() {
		syscall.Kill(pid, s)
	}
}

// pids returns the processes of logins and their ancestors, up to this test's own process.
func (h *OwnHost) pids() (pids []int) {
	seen := map[int]bool{0: true, 1: true, os.Getpid(): true}
	for _, p := range ProcessesWith("HOME=" + h.Home) {
		pid, _ := strconv.Atoi(p[:strings.IndexByte(p, ' ')])
		for !seen[pid] {
			seen[pid] = true
			pids = append(pids, pid)
			pid, _ = Parent(pid)
		}
	}
	return pids
}

// Parent returns the parent and the state of a process. The state of an ended process is "Z".
func Parent(pid int) (ppid int, state string) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, ""
	}
	fmt.Sscan(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), &state, &ppid)
	return ppid, state
}

// Runs reports whether a process has not ended.
func Runs(pid int) bool {
	_, state := Parent(pid) // "" if the process is gone, or there is no /proc
	return syscall.Kill(pid, 0) == nil && state != "Z" && state != "X"
}

// PidsIn waits until a task has written n pids to a file, and returns them.
func PidsIn(t testing.TB, file string, n int) []int {
	t.Helper()
	var fields []string
	Until(t, "pids in "+file, func() bool {
		b, _ := os.ReadFile(file)
		fields = strings.Fields(string(b))
		return len(fields) >= n && strings.HasSuffix(string(b), "\n")
	})
	pids := make([]int, len(fields))
	for i, f := range fields {
		pids[i], _ = strconv.Atoi(f)
		if pids[i] < 2 {
			t.Fatalf("%q is not a pid", f)
		}
	}
	return pids
}

// KillWorker kills the processes that run functions on the host, and returns how many there were.
func (h *OwnHost) KillWorker() (n int) {
	for _, p := range ProcessesWith("HOME=" + h.Home) {
		number, _, _ := strings.Cut(p, " ")
		env, _ := os.ReadFile("/proc/" + number + "/environ")
		if slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return bytes.HasPrefix(v, []byte("GPUTRAIN_TASK=worker-")) }) {
			pid, _ := strconv.Atoi(number)
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				n++
			}
		}
	}
	return n
}
