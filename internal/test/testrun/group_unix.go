//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// group gives a command a process group of its own, and returns a func that sends SIGINT to all of it: go test passes no
// signal on to its tests.
func group(cmd *exec.Cmd) (interrupt func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
}
