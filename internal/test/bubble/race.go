//go:build race

package bubble

// Race reports whether the race detector runs. Under it memory cannot be measured, for example.
const Race = true
