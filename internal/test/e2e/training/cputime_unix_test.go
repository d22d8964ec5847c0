//go:build unix

package training

import (
	"syscall"
	"testing"
	"time"
)

// ownTime returns the processor time of this program.
func ownTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
