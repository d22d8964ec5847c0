//go:build unix

package opensshtest

import (
	"os"
	"syscall"
)

// freeze stops a process where it is.
func freeze(p *os.Process) { p.Signal(syscall.SIGSTOP) }
