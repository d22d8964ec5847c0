//go:build !unix

package private

import "io/fs"

const openFlags = 0

// Owned always returns true: each user's folders are private.
func Owned(fs.FileInfo) bool { return true }

func othersWrite(fs.FileInfo) bool { return false }

func trusted(fs.FileInfo) bool { return true }

func anyoneRenames(fs.FileInfo) bool { return false }
