package machine

import (
	"bytes"
	"encoding/binary"
)

// envOfProcArgs returns the environment in what macOS's kern.procargs2 answers:
// the number of arguments, the program's path, padding, the arguments, the
// environment; all but the first are NUL-terminated. What does not look like
// that has none.
func envOfProcArgs(b []byte) []byte {
	if len(b) < 4 {
		return nil
	}
	args := binary.NativeEndian.Uint32(b)
	_, b, found := bytes.Cut(b[4:], []byte{0})
	if !found {
		return nil
	}
	b = bytes.TrimLeft(b, "\x00")
	for ; args > 0; args-- {
		if _, b, found = bytes.Cut(b, []byte{0}); !found {
			return nil
		}
	}
	return b
}
