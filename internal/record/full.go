//go:build !windows

package record

import (
	"errors"
	"syscall"
)

// IsFull reports whether an error means that the disk is full, or a quota used up.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
