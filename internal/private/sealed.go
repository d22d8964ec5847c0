package private

// Sealed checks files and folders that only this user and root can change or
// exchange. Its zero value is ready; it remembers what it found to be so.
type Sealed struct{ fine map[sealedPath]bool }

// A sealedPath is a path without links, at the end or on the way to another.
type sealedPath struct {
	path string
	way  bool
}
