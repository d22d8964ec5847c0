//go:build !linux && !darwin

package local

import "iter"

// processes yields nothing: environments of processes cannot be seen here.
func processes() iter.Seq[int] { return func(func(int) bool) {} }

func processEnv(int) []byte { return nil }

func isOurProcess(int) bool { return false }

// memoryGiB is not known here.
func memoryGiB() float64 { return 0 }
