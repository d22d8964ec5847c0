package transfer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// statFormat makes the node's stat print mode, size and modification time of a file. A node without such a stat prints
// nothing and is sent everything.
const statFormat = "%f %s %Y"

// A seen is the output of stat with statFormat for one file on the node.
type seen struct {
	mode fs.FileMode // the kind, if it is one that is sent, and permission bits
	size int64
	time int64 // in seconds
}

// look returns what the node's stat would report of an item that was sent already.
func (it *item) look() seen {
	s := seen{it.mode.Type() | it.mode.Perm(), it.size, it.mtime.Unix()}
	switch it.mode.Type() {
	case fs.ModeDir:
		return seen{mode: fs.ModeDir}
	case fs.ModeSymlink:
		s.size = int64(len(it.target))
	}
	return s
}

// String formats the result as statFormat does.
func (s seen) String() string {
	return fmt.Sprintf("%x %d %d", rawKind[s.mode.Type()]|int64(s.mode.Perm()), s.size, s.time)
}

var rawKind = map[fs.FileMode]int64{0: 0o100000, fs.ModeDir: 0o040000, fs.ModeSymlink: 0o120000}

// parseSeen parses a line of statFormat.
func parseSeen(text string) (seen, bool) {
	fields := strings.Split(text, " ")
	if len(fields) != 3 {
		return seen{}, false
	}
	raw, err1 := strconv.ParseInt(fields[0], 16, 64)
	size, err2 := strconv.ParseInt(fields[1], 10, 64)
	at, err3 := strconv.ParseInt(fields[2], 10, 64)
	for kind, bits := range rawKind {
		if raw&^0o7777 == bits && err1 == nil && err2 == nil && err3 == nil {
			if kind == fs.ModeDir { // size and time of a folder do not matter
				return seen{mode: kind}, true
			}
			// A bit like setuid was not sent.
			return seen{kind | fs.FileMode(raw&0o777), size, at}, raw&0o7000 == 0
		}
	}
	return seen{}, false
}

// sentTime returns the modification time that a file gets on the node: its own, to the second. A file that was just
// written may be written again within the same second: it gets an earlier time, and so will be sent again.
func sentTime(written time.Time) time.Time {
	t := time.Unix(max(written.Unix(), 0), 0)
	if time.Since(written) < 2*settled {
		t = t.Add(-time.Second)
	}
	return t
}

// statNames reads names that end with NUL, and prints a record for each that exists, in their order. No clean name
// holds "//".
const statNames = `cd "$d" 2>/dev/null || exit 0
xargs -0 stat -c '//` + statFormat + ` %n' 2>/dev/null
exit 0
`

// lacking returns the items that the node's folder at lacks, and the folders that those are in. Each folder comes
// before its content.
func (r *Remote) lacking(ctx context.Context, at string, items []item) ([]item, error) {
	same := make([]bool, len(items))
	err := r.stream(ctx, script(statNames, "d="+at), at, func(w io.Writer) error {
		for i := range items {
			if _, err := io.WriteString(w, "./"+items[i].name+"\x00"); err != nil {
				return err
			}
		}
		return nil
	}, func(out io.Reader) error {
		return compare(out, items, same)
	})
	if err != nil {
		return nil, err
	}
	return withFolders(items, func(i int) bool { return !same[i] }), nil
}

// compare reads the answer to statNames, and marks the items that are there.
func compare(out io.Reader, items []item, same []bool) error {
	records := newRecords(out)
	next := 0
	for count := 0; records.Scan(); count++ {
		if count > 2*len(items)+listingFiles {
			return errListing
		}
		said, name, _ := strings.Cut(strings.TrimSuffix(records.Text(), "\n"), " ./")
		s, ok := parseSeen(said)
		if !ok {
			continue
		}
		for next < len(items) && items[next].name != name {
			next++ // the name does not exist
		}
		if next < len(items) {
			same[next] = s == items[next].look()
		}
	}
	return errRecord(records.Err())
}

// splitRecords splits at "//".
func splitRecords(data []byte, atEOF bool) (advance int, record []byte, err error) {
	if i := bytes.Index(data, []byte("//")); i >= 0 {
		return i + 2, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// withFolders returns the wanted items, and the folders that they are in.
func withFolders(items []item, wanted func(i int) bool) []item {
	needed := make(map[string]bool)
	for i := range items {
		if wanted(i) {
			for name := items[i].name; name != "." && !needed[name]; name = path.Dir(name) {
				needed[name] = true
			}
		}
	}
	var some []item
	for i := range items {
		if needed[items[i].name] {
			some = append(some, items[i])
		}
	}
	return some
}
