package guardian

import "syscall"

// detached makes a process without a console, which gets no signals of this one's.
func detached() *syscall.SysProcAttr {
	const detachedProcess = 0x8 // DETACHED_PROCESS in winbase.h
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
}
