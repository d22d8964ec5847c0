//go:build unix && !linux

package worker

import "golang.org/x/sys/unix"

// fionread reads how many bytes wait in a pipe.
const fionread = 0x4004667f

// moveAtOnce is not available on this system.
func moveAtOnce(from, to int) (int, error) { return 0, unix.ENOSYS }
