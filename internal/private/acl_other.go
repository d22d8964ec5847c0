//go:build unix && !linux

package private

// hasACL always returns true: on these systems a service, not a file, knows the groups and their
// members.
func hasACL(string) bool { return true }
