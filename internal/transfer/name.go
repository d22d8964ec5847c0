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
	// nameBytes is the length of the longest path that a node may send.
	nameBytes = 4 << 10
	// nameDepth is how many elements such a path may have.
	nameDepth = 256
)

// nodeName turns a path that the node sent into one here. A control character is
// refused: it could make a terminal do something when the name is printed.
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

// localName turns a path with slashes into one here.
func localName(name string) (string, error) {
	local, err := strings.TrimSuffix(name, "/"), error(nil)
	if runtime.GOOS == "windows" {
		local, err = filepath.Localize(local)
	}
	if err != nil || !filepath.IsLocal(local) || strings.IndexByte(local, 0) >= 0 {
		return "", fmt.Errorf("the node sent %q, which is no name of a file here", name)
	}
	return filepath.Clean(local), nil
}

// foldsCase says that this machine's file systems take A and a for one name.
const foldsCase = runtime.GOOS == "darwin" || runtime.GOOS == "windows"

// folded returns what two names have in common that are one here.
func folded(local string) string {
	if foldsCase {
		return strings.ToLower(strings.ToUpper(local))
	}
	return local
}
