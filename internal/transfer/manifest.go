package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// A manifest lists what Sync sent to a node, by name relative to Dir. It is stored there as fields that end with NUL: a
// name may hold any other byte.
type manifest map[string]entry

// An entry is one file, link or folder.
type entry struct {
	mode   fs.FileMode // kind and permission bits
	size   int64       // of a file
	detail string      // SHA-256 of a file, target of a link
}

func (it *item) entry() entry {
	switch it.mode.Type() {
	case fs.ModeDir:
		return entry{mode: it.mode}
	case fs.ModeSymlink:
		return entry{mode: it.mode, detail: it.target}
	}
	return entry{mode: it.mode, size: it.size, detail: it.sum}
}

const (
	manifestHead = "gputrain sync 1"
	manifestEnd  = "end"
)

// encodeManifest encodes the entries of items in their order.
func encodeManifest(items []item) []byte {
	var b strings.Builder
	b.WriteString(manifestHead + "\x00")
	for i := range items {
		e := items[i].entry()
		fmt.Fprintf(&b, "%d %d\x00%s\x00%s\x00", uint32(e.mode), e.size, items[i].name, e.detail)
	}
	b.WriteString(manifestEnd + "\x00")
	return []byte(b.String())
}

var errManifest = errors.New("no manifest")

// decodeManifest decodes a manifest from the start of fields and returns the rest.
func decodeManifest(fields []string) (manifest, []string, error) {
	if len(fields) == 0 || fields[0] != manifestHead {
		return nil, nil, errManifest
	}
	m := make(manifest)
	for fields = fields[1:]; ; fields = fields[3:] {
		if len(fields) > 0 && fields[0] == manifestEnd {
			return m, fields[1:], nil
		}
		if len(fields) < 3 {
			return nil, nil, errManifest
		}
		var mode uint32
		var e entry
		n, err := fmt.Sscanf(fields[0], "%d %d", &mode, &e.size)
		e.mode, e.detail = fs.FileMode(mode), fields[2]
		if err != nil || n != 2 || e.size < 0 || !isBelow(fields[1]) {
			return nil, nil, errManifest
		}
		m[fields[1]] = e
	}
}

// isBelow reports whether a name leads below a folder.
func isBelow(name string) bool {
	return name != "" && !path.IsAbs(name) && path.Clean(name) == name && name != "." && name != ".." && !strings.HasPrefix(name, "../")
}
