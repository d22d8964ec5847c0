//go:build unix && !linux

package private

func isUnmapped(uint32) bool { return false }
