package checkpoint

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// mostFolder bounds the length of a name that Folder returns.
const mostFolder = 200

// Folder returns the name of a folder for the checkpoints of a task: the task's own name, except for characters that not
// every file system takes in a name. Different tasks have different folders.
func Folder(task string) string {
	var b strings.Builder
	for i, c := range []byte(task) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0 && i < len(task)-1:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() <= mostFolder {
		return b.String()
	}
	// "%-" is in no other name.
	return fmt.Sprintf("%s%%-%x", b.String()[:mostFolder-2-2*sha256.Size], sha256.Sum256([]byte(task)))
}
