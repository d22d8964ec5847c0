//go:build !windows

package ssh

import "syscall"

var absences = []error{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH}
