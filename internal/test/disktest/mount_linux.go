package disktest

import (
	"fmt"
	"syscall"
)

// mount mounts a file system in memory over a folder.
func mount(dir string, size int, readOnly bool) error {
	var flags uintptr
	if readOnly {
		flags = syscall.MS_RDONLY
	}
	return syscall.Mount("tmpfs", dir, "tmpfs", flags, fmt.Sprint("size=", size))
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
