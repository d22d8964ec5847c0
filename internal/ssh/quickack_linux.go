package ssh

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// quickAck makes the kernel acknowledge what it has received at once. Servers
// that write twice before they read (OpenSSH does, after the key exchange) wait
// for that with the second write, and a delayed acknowledgement takes 40 ms.
// The setting does not last: it is repeated after every read.
func quickAck(c syscall.RawConn) {
	c.Control(func(fd uintptr) {
		// A refusal costs time, nothing else.
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	})
}
