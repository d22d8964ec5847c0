//go:build unix

package opensshtest

import (
	"os"
	"syscall"
)

// freeze suspends a process.
func freeze(p *os.Process) { p.Signal(syscall.SIGSTOP) }
