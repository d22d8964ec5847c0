//go:build !linux

package ssh

import "syscall"

// quickAck does nothing: the system has no such setting.
func quickAck(syscall.RawConn) {}
