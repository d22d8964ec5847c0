package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Near lists the folder in which a glob looked for files.
type Near struct {
	// Folder is the first folder of the glob in which names can differ, or the nearest existing folder above that:
	// absolute, or relative to the Remote's Dir. It is empty if even the folder in which the glob starts is missing.
	Folder string
	// Matching are the names in Folder that the glob matches, and Others the rest; folders end in a slash. More is set
	// if there are more than nearNames.
	Matching, Others []string
	More             bool
}

// At most nearNames names of a folder are listed.
const nearNames = 100

// listNear lists nearNames+1 names, the last of which only shows that there are more, of the
// nearest existing folder at or above each place: "//#", its number and the folder, then "//-" and
// a name each.
const listNear = `cd "$d" 2>/dev/null || exit 0
near() { # what to look near to, its number, how many names
	b=$1
	while [ ! -d "$b" ]; do
		case $b in
		*/*) b=${b%/*} ;;
		*) b=. ;;
		esac
	done
	printf '//#%s %s\n' "$2" "$b"
	n=0
	for f in "$b"/* "$b"/.[!.]*; do
		[ -e "$f" ] || [ -L "$f" ] || continue
		[ "$n" -lt "$3" ] || break
		n=$((n + 1))
		name=${f##*/}
		[ ! -d "$f" ] || name=$name/
		printf '//-%s\n' "$name"
	done
}
`

// Near lists the folders in which globs looked for files, below dir, which is absolute or relative to the Remote's Dir.
// It is for messages, so it does not retry.
func (r *Remote) Near(ctx context.Context, globs []string, dir string) ([]Near, error) {
	at := r.Dir
	if dir != "" {
		var err error
		if at, err = r.at(dir); err != nil {
			return nil, err
		}
	}
	parsed := make([]glob, len(globs))
	text := listNear
	for i := range globs {
		var err error
		if parsed[i], err = parseGlob(globs[i]); err != nil {
			return nil, err
		}
		text += fmt.Sprintf("near %s %d %d\n", quote("./"+parsed[i].base), i, nearNames+1)
	}
	l := nearList{globs: parsed, dir: at, near: make([]Near, len(globs)), current: -1}
	err := r.stream(ctx, script(text, "d="+at), at, nil, func(out io.Reader) error {
		records := newRecords(out)
		for records.Scan() {
			if err := l.read(strings.TrimSuffix(records.Text(), "\n")); err != nil {
				return err
			}
		}
		return errRecord(records.Err())
	})
	return l.near, err
}

// A nearList reads the answer to listNear.
type nearList struct {
	globs   []glob
	dir     string
	near    []Near
	current int
	base    string // the current folder, relative to dir
	names   int    // how many the current folder has had
}

var errNear = errors.New("the node sent an invalid list of nearby files")

func (l *nearList) read(record string) error {
	if record == "" {
		return nil // before the first one
	}
	if rest, ok := strings.CutPrefix(record, "#"); ok {
		number, folder, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(number)
		if err != nil || n != l.current+1 || n >= len(l.globs) {
			return errNear
		}
		l.current, l.base, l.names = n, path.Clean(folder), 0
		l.near[n].Folder = path.Join(l.dir, l.base)
		return nil
	}
	name, ok := strings.CutPrefix(record, "-")
	if !ok || l.current < 0 || l.names > nearNames {
		return errNear
	}
	near := &l.near[l.current]
	switch l.names++; {
	case l.names > nearNames:
		near.More = true
	case !strings.HasSuffix(name, "/") && l.globs[l.current].match(path.Join(l.base, name)):
		near.Matching = append(near.Matching, name)
	default:
		near.Others = append(near.Others, name)
	}
	return nil
}

// String describes the folder and some of its names.
func (n Near) String() string {
	const most = 6
	names := slices.Concat(n.Matching, n.Others)
	switch {
	case n.Folder == "":
		return "" // no folder
	case len(names) == 0:
		return fmt.Sprintf("%q is empty", n.Folder)
	}
	said := make([]string, 0, most)
	for _, name := range names[:min(most, len(names))] {
		said = append(said, fmt.Sprintf("%.100q", name))
	}
	text := fmt.Sprintf("%q has %s", n.Folder, strings.Join(said, ", "))
	switch {
	case n.More:
		text += fmt.Sprintf(" and more than %d others", nearNames-len(said))
	case len(names) > most:
		text += fmt.Sprintf(" and %d others", len(names)-most)
	}
	return text
}
