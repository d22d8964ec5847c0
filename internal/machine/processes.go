package machine

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"time"
)

// A Process is a process of this computer, as it was found.
type Process struct {
	PID int
	env []byte // NUL-terminated "NAME=value"s
}

// Processes yields the processes whose environments this program may see, but for its own:
// as root also those of other users.
func Processes() iter.Seq[Process] {
	return func(yield func(Process) bool) {
		for pid := range processIDs() {
			if pid == os.Getpid() {
				continue
			}
			if p := find(pid); len(p.env) > 0 && !yield(p) {
				return
			}
		}
	}
}

func find(pid int) Process { return Process{pid, processEnv(pid)} }

// Getenv returns a variable of the environment that the process was started with, or "".
func (p Process) Getenv(name string) string {
	for v := range bytes.SplitSeq(p.env, []byte{0}) {
		if value, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// IsOurs reports whether this user started the process.
func (p Process) IsOurs() bool { return isOurProcess(p.PID) }

// killTimeout bounds how long killed processes may take to vanish.
const killTimeout = 10 * time.Second

// endProcesses kills the processes of machines until there are none. Those that have become
// another user's are not waited for: that user may have copied what marks them.
func endProcesses(ctx context.Context, machines []*Machine) error {
	marked := map[string]*Machine{}
	for _, m := range machines {
		if m.mark != "" {
			marked[m.mark] = m
		}
	}
	if len(marked) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	for {
		var left []int
		for p := range Processes() {
			m := machineOf(marked, p)
			if m == nil {
				continue
			}
			if p.IsOurs() {
				left = append(left, p.PID)
			}
			kill(marked, p.PID, m)
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes %v do not end: %w", left, ctx.Err())
		case <-time.After(5 * time.Millisecond): // others' children cannot be waited for
		}
	}
}

// machineOf returns the machine that a process belongs to, or nil.
func machineOf(marked map[string]*Machine, p Process) *Machine {
	for v := range bytes.SplitSeq(p.env, []byte{0}) {
		m := marked[string(v)]
		if m == nil {
			continue
		}
		if m.owns == nil && p.IsOurs() || m.owns != nil && m.owns(p) {
			return m
		}
		return nil
	}
	return nil
}

// kill ends a process if it is still the one that was found. It takes the handle first, so that
// the process ID cannot have passed to another process.
func kill(marked map[string]*Machine, pid int, of *Machine) {
	handle, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer handle.Release()
	if machineOf(marked, find(pid)) == of {
		handle.Kill()
	}
}
