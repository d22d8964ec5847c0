//go:build !unix

package sim

// killProcesses does nothing: processes cannot be seen here.
func killProcesses(map[string]bool) {}
