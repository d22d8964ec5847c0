package transfer

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"
)

const (
	// nameBytes bounds the length of a path that a node may send.
	nameBytes = 4 << 10
	// nameDepth bounds the number of its elements.
	nameDepth = 256
)

// nodeName converts a path that the node sent to a local one. A control character is refused: it could make a terminal
// do something when the name is printed.
func nodeName(name string) (string, error) {
	elements := strings.Split(name, "/")
	switch {
	case len(name) > nameBytes:
		return "", fmt.Errorf("the node sent a name of %d bytes, %.60q...: at most %d are taken", len(name), name, nameBytes)
	case len(elements) > nameDepth:
		return "", fmt.Errorf("the node sent %.60q..., which is %d folders deep: at most %d are taken", name, len(elements), nameDepth)
	case hasControl(name):
		return "", fmt.Errorf("the node sent %q, which has a control character in its name: rename it there", name)
	case slices.Contains(elements, ".."):
		return "", fmt.Errorf("the node sent %q, which climbs with \"..\"", name)
	}
	return localName(name)
}

func hasControl(text string) bool { return strings.ContainsFunc(text, unicode.IsControl) }

// localName converts a path with slashes to a local one.
func localName(name string) (string, error) {
	local, err := strings.TrimSuffix(name, "/"), error(nil)
	if runtime.GOOS == "windows" {
		local, err = filepath.Localize(local)
	}
	if err != nil || !filepath.IsLocal(local) || strings.IndexByte(local, 0) >= 0 {
		return "", fmt.Errorf("the node sent %q, which is not a valid name of a file here", name)
	}
	return filepath.Clean(local), nil
}

// foldsCase is true if this machine's file systems ignore the case of names.
const foldsCase = runtime.GOOS == "darwin" || runtime.GOOS == "windows"

// folded returns the same text for names that are one name here.
func folded(local string) string {
	if foldsCase {
		return strings.ToLower(strings.ToUpper(local))
	}
	return local
}
