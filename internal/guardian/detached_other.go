//go:build !unix && !windows

package guardian

import "syscall"

func detached() *syscall.SysProcAttr { return nil }
