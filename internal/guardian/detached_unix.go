//go:build unix

package guardian

import "syscall"

// detached makes a process the leader of a session of its own, without a terminal.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
