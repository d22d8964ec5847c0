package private

import "golang.org/x/sys/unix"

// hasACL reports whether users beyond the mode's may have rights to a file.
func hasACL(path string) bool {
	_, err := unix.Lgetxattr(path, "system.posix_acl_access", nil)
	return err == nil
}
