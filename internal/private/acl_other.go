//go:build unix && !linux

package private

// hasACL answers that there may be one: what groups there are is known to a service.
func hasACL(string) bool { return true }
