//go:build linux || darwin

package local

import "golang.org/x/sys/unix"

// diskGiB is what is free for this user where dir is, or 0 where that cannot
// be known.
func diskGiB(dir string) float64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	return float64(st.Bavail) * float64(st.Bsize) / (1 << 30)
}
