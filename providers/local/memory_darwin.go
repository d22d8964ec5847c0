package local

import "golang.org/x/sys/unix"

// memoryGiB returns the machine's memory, or 0 if it is unknown.
func memoryGiB() float64 {
	n, _ := unix.SysctlUint64("hw.memsize")
	return float64(n) / (1 << 30)
}
