//go:build linux || darwin

package local

import "golang.org/x/sys/unix"

// diskGiB returns the free space for this user at dir, or 0 if it is unknown.
func diskGiB(dir string) float64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	return float64(st.Bavail) * float64(st.Bsize) / (1 << 30)
}
