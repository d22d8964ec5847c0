//go:build !linux

package guardian

import "os"

// executable returns this program's file.
func executable() (string, error) { return os.Executable() }
