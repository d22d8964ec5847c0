//go:build !windows

package record

import (
	"errors"
	"syscall"
)

// IsFull reports whether an error is that of a full disk, or of a quota.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
