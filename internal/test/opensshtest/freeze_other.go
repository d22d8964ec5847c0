//go:build !unix

package opensshtest

import "os"

// freeze does nothing: this system has no signals.
func freeze(*os.Process) {}
