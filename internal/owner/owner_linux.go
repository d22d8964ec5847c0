package owner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// machine identifies the space in which process IDs are unique.
func machine() (string, bool) {
	boot, bootErr := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, spaceErr := os.Readlink("/proc/self/ns/pid")
	return string(bytes.TrimSpace(boot)) + " " + space, bootErr == nil && spaceErr == nil
}

// find returns when a process started, in clock ticks since the boot.
func find(pid int) (start string, is presence) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		// Under hidepid other users' processes are not in /proc.
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return "0", gone
		}
		return "0", hidden
	}
	return parseStat(stat)
}

// parseStat reads /proc/PID/stat. Its second field is the program's name in parentheses, which may
// itself contain spaces and parentheses.
func parseStat(stat []byte) (start string, is presence) {
	const state, starttime = 3, 22 // as proc(5) counts them
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= starttime-state {
		return "0", hidden
	}
	if s := fields[0][0]; s == 'Z' || s == 'X' {
		return "0", gone
	}
	return string(fields[starttime-state]), running
}
