//go:build !linux

package ssh

import "syscall"

// quickAck does nothing where the system has no such setting.
func quickAck(syscall.RawConn) {}
