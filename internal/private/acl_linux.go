package private

import "golang.org/x/sys/unix"

// hasACL reports whether an access control list may give more users rights to a file than its mode
// does.
func hasACL(path string) bool {
	_, err := unix.Lgetxattr(path, "system.posix_acl_access", nil)
	return err == nil
}
