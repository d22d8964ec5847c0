//go:build !linux && !darwin

package local

// memoryGiB returns 0: the memory is not known on this system.
func memoryGiB() float64 { return 0 }
