//go:build race

package bubble

// Race reports whether the race detector runs: memory, for one, cannot be counted then.
const Race = true
