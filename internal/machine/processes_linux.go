package machine

import (
	"bytes"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// processIDs yields the number of every process.
func processIDs() iter.Seq[int] {
	return func(yield func(int) bool) {
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			if pid, err := strconv.Atoi(e.Name()); err == nil && !yield(pid) {
				return
			}
		}
	}
}

// execTime bounds how long a process is waited for that is becoming another program.
const execTime = 100 * time.Millisecond

// processEnv returns the environment that a process was started with: nothing
// for another user's, and for one that has ended. One that is becoming another
// program has neither environment nor arguments for a moment, and is waited for:
// it would be overlooked if all are to be ended.
func processEnv(pid int) []byte {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	var before []byte // the arguments
	for until := time.Now().Add(execTime); ; time.Sleep(time.Millisecond) {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if len(env) > 0 || err != nil || time.Now().After(until) {
			return env
		}
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if len(args) > 0 && bytes.Equal(args, before) {
			return nil // it became nothing else meanwhile: it was started without
		}
		before = args
		if _, err := os.Readlink(filepath.Join(dir, "exe")); err != nil {
			return nil // the kernel's own, or a zombie
		}
	}
}

// isOurProcess reports whether this user started a process. It goes by the real user:
// another user may start a program that runs as this one.
func isOurProcess(pid int) bool {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return false
	}
	_, users, _ := bytes.Cut(status, []byte("\nUid:"))
	line, _, _ := bytes.Cut(users, []byte("\n"))
	fields := bytes.Fields(line)
	return len(fields) > 0 && string(fields[0]) == strconv.Itoa(os.Getuid())
}
