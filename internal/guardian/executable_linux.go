package guardian

import "os"

// executable returns this program's file, which may have been replaced or removed since it was started.
func executable() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable() // there is no /proc
}
