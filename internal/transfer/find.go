package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// findFiles lists files, and links to files, after a record that says for
// which glob. Records end with NUL, since a name may hold anything else.
const findFiles = `cd "$d" 2>/dev/null || exit 0
links='for f; do [ ! -f "$f" ] || printf "%s\000" "$f"; done'
list() ( # what to look in, its number, how deep
printf '/%s\000' "$2"
if [ ! -d "$1" ]; then
	[ ! -f "$1" ] || printf '.\000'
	exit 0
fi
cd "$1" || exit 1
if [ -n "$3" ]; then
	find . -type d -path "$3" -prune -o -type f -exec printf '%s\000' {} + -o -type l -exec sh -c "$links" sh {} +
else
	find . -type f -exec printf '%s\000' {} + -o -type l -exec sh -c "$links" sh {} +
fi
)
`

// find returns the names of the files that match, sorted.
func (r *Remote) find(ctx context.Context, globs []glob) ([]string, error) {
	var text strings.Builder
	text.WriteString(findFiles)
	for i, g := range globs {
		limit := ""
		if !g.deep {
			limit = "." + strings.Repeat("/*", g.depth)
		}
		// A file or folder that goes meanwhile makes find complain; so it does
		// of one that it may not read, which is an error.
		fmt.Fprintf(&text, "said=$(list %s %d %s 3>&1 1>&4 2>&3) || case $said in *denied*) fail \"$said\";; esac\n",
			quote("./"+g.base), i, quote(limit))
	}
	var names []string
	err := r.stream(ctx, script("{\n"+text.String()+"} 4>&1\n", "d="+r.Dir), r.Dir, nil, func(out io.Reader) (err error) {
		names, err = matching(globs, bufio.NewReaderSize(out, chunk))
		return err
	})
	return names, err
}

// matching reads findFiles' answer.
func matching(globs []glob, out *bufio.Reader) ([]string, error) {
	var names []string
	current := -1
	for {
		record, err := out.ReadString(0)
		if errors.Is(err, io.EOF) && record == "" {
			slices.Sort(names)
			return slices.Compact(names), nil
		}
		if err != nil {
			return nil, io.ErrUnexpectedEOF
		}
		record = record[:len(record)-1]
		if number, ok := strings.CutPrefix(record, "/"); ok {
			if _, err := fmt.Sscan(number, &current); err != nil || current < 0 || current >= len(globs) {
				return nil, fmt.Errorf("the node lists files for a pattern %q that it was not asked for", number)
			}
			continue
		}
		if current < 0 {
			return nil, fmt.Errorf("the node lists %q for no pattern", record)
		}
		if name := path.Join(globs[current].base, record); globs[current].match(name) {
			names = append(names, name)
		}
	}
}
