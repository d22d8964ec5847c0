package private

// Sealed checks that only this user and root can change or replace files and folders. Its zero
// value is ready to use. It remembers the paths that have passed.
type Sealed struct{ fine map[sealedPath]bool }

// A sealedPath is a path without links. way means that it leads to another path.
type sealedPath struct {
	path string
	way  bool
}
