//go:build unix

package gputrain_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// stop stops everything that runs on the host, sshd too, as a suspended
// machine does.
func (h *ownHost) stop(t testing.TB) {
	t.Helper()
	for range 3 { // what was made meanwhile too
		h.signal(syscall.SIGSTOP)
	}
	if len(h.pids()) == 0 {
		t.Fatal("nothing runs on the host, or there is no /proc")
	}
	t.Cleanup(h.resume)
}

func (h *ownHost) resume() { h.signal(syscall.SIGCONT) }

func (h *ownHost) signal(s syscall.Signal) {
	for _, pid := range h.pids() {
		syscall.Kill(pid, s)
	}
}

// pids are the logins' processes and those above them, up to this test's own.
func (h *ownHost) pids() (pids []int) {
	seen := map[int]bool{0: true, 1: true, os.Getpid(): true}
	for _, p := range processesWith("HOME=" + h.home) {
		pid, _ := strconv.Atoi(p[:strings.IndexByte(p, ' ')])
		for !seen[pid] {
			seen[pid] = true
			pids = append(pids, pid)
			pid, _ = parent(pid)
		}
	}
	return pids
}

// parent returns a process's parent and its state: "Z" is one that has ended.
func parent(pid int) (ppid int, state string) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, ""
	}
	fmt.Sscan(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), &state, &ppid)
	return ppid, state
}

// runs reports whether a process has not ended.
func runs(pid int) bool {
	_, state := parent(pid) // which tells nothing of one that is gone, or where there is no /proc
	return syscall.Kill(pid, 0) == nil && state != "Z" && state != "X"
}

// pidsIn reads the pids that a task wrote into a file, n of them.
func pidsIn(t testing.TB, file string, n int) []int {
	t.Helper()
	var fields []string
	until(t, "pids in "+file, func() bool {
		b, _ := os.ReadFile(file)
		fields = strings.Fields(string(b))
		return len(fields) >= n && strings.HasSuffix(string(b), "\n")
	})
	pids := make([]int, len(fields))
	for i, f := range fields {
		pids[i], _ = strconv.Atoi(f)
		if pids[i] < 2 {
			t.Fatalf("%q is no pid", f)
		}
	}
	return pids
}
