package transfer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// findFiles lists files, and links to files, in records that begin with "//",
// which is in none of the names: "=" and the marker's time, "#" and for which
// glob the next ones are, or a file's time and name. $print is the command
// that prints the latter for the files that it is given.
const findFiles = `cd "$d" 2>/dev/null || exit 0
files="$print \"\$@\""
links="for f; do
	shift
	[ ! -f \"\$f\" ] || set -- \"\$@\" \"\$f\"
done
[ \$# -eq 0 ] || $print \"\$@\""
list() ( # what to look in, its number, how deep
if [ ! -d "$1" ]; then
	printf '//#%s.\n' "$2"
	[ ! -f "$1" ] || sh -c "$files" sh "$1"
	exit 0
fi
printf '//#%s\n' "$2"
cd "$1" || exit 1
if [ -n "$3" ]; then
	find . -type d -path "$3" -prune -o -type f -exec sh -c "$files" sh {} + -o -type l -exec sh -c "$links" sh {} +
else
	find . -type f -exec sh -c "$files" sh {} + -o -type l -exec sh -c "$links" sh {} +
fi
)
`

const (
	// printNames has no times: all files count.
	printNames = `print='printf "//- %s\n"'
`
	// printTimes has those of the last change of anything of a file, which
	// nobody can set back. Where stat is another one, a file counts that the
	// shell does not find older by its content, or find finds newer.
	printTimes = `[ -f "$since" ] || fail "the marker $since is not there"
export since
if m=$(stat -L -c %y "$since" 2>/dev/null); then
	printf '//=%s\n' "$m"
	print='stat -L -c "//%z %n"'
else
	print='eval "$unlessOlder"; unlessOlder'
	unlessOlder='unlessOlder() {
		for f; do
			[ "$since" -nt "$f" ] && [ -z "$(find -L "$f" -prune -cnewer "$since" 2>/dev/null)" ] || printf "//- %s\n" "$f"
		done
	}'
	export unlessOlder
fi
`
)

// find returns the names of the files that match, sorted; of those, where
// since is not empty, the ones that changed after that file was written.
func (r *Remote) find(ctx context.Context, globs []glob, since string) ([]string, error) {
	var text strings.Builder
	if since == "" {
		text.WriteString(printNames)
	} else {
		text.WriteString(printTimes)
	}
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
	err := r.stream(ctx, script("{\n"+text.String()+"} 4>&1\n", "d="+r.Dir, "since="+since), r.Dir, nil, func(out io.Reader) (err error) {
		names, err = matching(globs, out)
		return err
	})
	return names, err
}

// matching reads findFiles' answer.
func matching(globs []glob, out io.Reader) ([]string, error) {
	var names []string
	var marker time.Time
	current, base := -1, ""
	records := newRecords(out)
	for records.Scan() {
		record := strings.TrimSuffix(records.Text(), "\n")
		if number, ok := strings.CutPrefix(record, "#"); ok {
			number, whole := strings.CutSuffix(number, ".")
			if _, err := fmt.Sscan(number, &current); err != nil || current < 0 || current >= len(globs) {
				return nil, fmt.Errorf("the node lists files for a pattern %q that it was not asked for", number)
			}
			if base = globs[current].base; whole {
				base = ""
			}
			continue
		}
		if said, ok := strings.CutPrefix(record, "="); ok {
			var err error
			if marker, err = parseTime(said); err != nil {
				return nil, err
			}
			continue
		}
		said, name, ok := strings.Cut(record, " ./")
		if record == "" {
			continue // before the first one
		}
		if !ok || current < 0 {
			return nil, fmt.Errorf("the node lists %q, which is no file of a pattern", record)
		}
		if name = path.Join(base, name); !globs[current].match(name) {
			continue
		}
		if said != "-" {
			changed, err := parseTime(said)
			if err != nil {
				return nil, err
			}
			if changed.Before(marker) {
				continue
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), records.Err()
}

// parseTime reads a time as stat prints it.
func parseTime(text string) (time.Time, error) {
	t, err := time.Parse("2006-01-02 15:04:05.999999999 -0700", text)
	if err != nil {
		return t, fmt.Errorf("the node says %q for the time of a file", text)
	}
	return t, nil
}

// newRecords splits what a node prints at "//".
func newRecords(out io.Reader) *bufio.Scanner {
	records := bufio.NewScanner(out)
	records.Buffer(nil, 1<<20) // a name is far shorter
	records.Split(splitRecords)
	return records
}
