package owner

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// machine identifies the space in which process IDs are unique.
func machine() (string, bool) {
	if id, err := unix.Sysctl("kern.bootsessionuuid"); err == nil && id != "" {
		return id, true
	}
	at, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return "", false
	}
	return strconv.FormatInt(at.Sec, 10), true
}

// find returns when a process started, in microseconds since 1970.
func find(pid int) (start string, is presence) {
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return "0", gone
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return "0", hidden
	}
	const zombie = 5 // SZOMB in sys/proc.h
	if info.Proc.P_stat == zombie {
		return "0", gone
	}
	began := info.Proc.P_starttime
	return strconv.FormatInt(began.Sec*1e6+int64(began.Usec), 10), running
}
