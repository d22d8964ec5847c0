package ssh

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// quickAck makes the kernel acknowledge received data at once. A server that writes twice before it reads (OpenSSH
// does, after the key exchange) waits for the acknowledgement before the second write, and a delayed one takes 40 ms.
// The setting does not last: it is repeated after every read.
func quickAck(c syscall.RawConn) {
	c.Control(func(fd uintptr) {
		// If the kernel refuses, that costs time only.
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	})
}
