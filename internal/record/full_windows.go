package record

import (
	"errors"

	"golang.org/x/sys/windows"
)

// IsFull reports whether an error means that the disk is full, or a quota used up.
func IsFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) || errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}
