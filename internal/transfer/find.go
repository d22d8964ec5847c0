package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// findFiles lists files, and links to files, in records that begin with "//", which occurs in no name: "=" and the
// marker's time; "#" and the number of the glob that the next records are for; or a file's time and name. $print is the
// command that prints the last kind for its arguments.
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
	// printNames prints no times: all files count.
	printNames = `print='printf "//- %s\n"'
`
	// printStamps prints the ctime and the size, and first the node's clock. If stat does not support that, it prints
	// neither.
	printStamps = `[ -z "$since" ] || [ -f "$since" ] || exit 0
if m=$(stat -L -c %y "${since:-.}" 2>/dev/null); then
	[ -z "$since" ] || printf '//=%s\n' "$m"
	printf '//@%s\n' "$(date +%s)"
	print='stat -L -c "//%z %s %n"'
	plain=
fi
`
	// printTimes prints the ctime, which no program can set back. If stat does not support that, a file counts unless
	// the shell finds its content older and find does not find it newer.
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

// A listed file is one that a search has found.
type listed struct {
	name string
	// stamp is the time of its last change with its size: a file of the same stamp has the same content. Empty means
	// that this is not known. size is zero then.
	stamp string
	size  int64
}

// find returns the files that match, sorted by name, and of those only the ones that changed after the marker was
// written, if there is one.
func (r *Remote) find(ctx context.Context, s search) ([]listed, error) {
	var text strings.Builder
	if s.lively {
		text.WriteString("plain=1\n" + printStamps + `if [ -n "$plain" ]; then` + "\n")
	}
	if s.since == "" {
		text.WriteString(printNames)
	} else {
		text.WriteString(printTimes)
	}
	if s.lively {
		text.WriteString("fi\n")
	}
	text.WriteString(findFiles)
	for i, g := range s.globs {
		limit := ""
		if !g.deep {
			limit = "." + strings.Repeat("/*", g.depth)
		}
		// find complains about a file or folder that is removed meanwhile, which is no error, and about one that it may
		// not read, which is one.
		fmt.Fprintf(&text, "said=$(list %s %d %s 3>&1 1>&4 2>&3) || case $said in *denied*) fail \"$said\";; esac\n",
			quote("./"+g.base), i, quote(limit))
	}
	var found []listed
	err := r.stream(ctx, script("{\n"+text.String()+"} 4>&1\n", "d="+r.Dir, "since="+s.since), r.Dir, nil, func(out io.Reader) (err error) {
		found, err = matching(s.globs, out, s.most)
		return err
	})
	return found, err
}

// A listing may have listingBytes for each file that is allowed: it also has names that match no pattern, which are not
// kept.
const listingBytes = nameBytes

// A listing may always be long enough for listingFiles files.
const listingFiles = 4 << 10

// errListing means that a node's list of files is longer than any honest one.
var errListing = errors.New("the node's list of files has no end")

// matching reads the answer to findFiles.
func matching(globs []glob, out io.Reader, most Limits) ([]listed, error) {
	f := finder{globs: globs, current: -1, most: most, names: make(map[string]listed)}
	var length, longest int64 = 0, math.MaxInt64
	if files := max(most.files(), listingFiles); files < math.MaxInt64/listingBytes {
		longest = files * listingBytes
	}
	records := newRecords(out)
	for records.Scan() {
		if length += int64(len(records.Bytes())); length > longest {
			return nil, errListing
		}
		if err := f.read(strings.TrimSuffix(records.Text(), "\n")); err != nil {
			return nil, err
		}
	}
	found := slices.SortedFunc(maps.Values(f.names), func(a, b listed) int { return strings.Compare(a.name, b.name) })
	return found, errRecord(records.Err())
}

// A finder keeps the names of a listing that match.
type finder struct {
	globs   []glob
	current int    // which of globs the next names are for
	base    string // what those are relative to
	marker  time.Time
	clock   int64 // the node's, in seconds, or zero
	most    Limits
	names   map[string]listed
	bytes   int64 // of all names
}

// read reads one record.
func (f *finder) read(record string) error {
	if record == "" {
		return nil // before the first one
	}
	if number, ok := strings.CutPrefix(record, "#"); ok {
		return f.turn(number)
	}
	if said, ok := strings.CutPrefix(record, "="); ok {
		var err error
		f.marker, err = parseTime(said)
		return err
	}
	if said, ok := strings.CutPrefix(record, "@"); ok {
		var err error
		if f.clock, err = strconv.ParseInt(said, 10, 64); err != nil {
			return fmt.Errorf("the node reports %.100q as its time", said)
		}
		return nil
	}
	said, name, ok := strings.Cut(record, " ./")
	if !ok || f.current < 0 {
		return fmt.Errorf("the node lists %.100q, which matches no pattern", record)
	}
	if name = path.Join(f.base, name); !f.globs[f.current].match(name) {
		return nil
	}
	l := listed{name: name}
	if said != "-" {
		changed, err := f.stamp(&l, said)
		if err != nil {
			return err
		}
		if changed.Before(f.marker) {
			return nil
		}
	}
	return f.keep(l)
}

// A file that has changed within the last stampPatience may change again at the same time, as far as the node's file
// system can tell.
var stampPatience = 2 * time.Second

// stamp reads the time of a file's last change, and its stamp if the node reports its size too.
func (f *finder) stamp(l *listed, said string) (changed time.Time, err error) {
	text := said
	if f.clock != 0 {
		i := strings.LastIndexByte(said, ' ')
		if l.size, err = strconv.ParseInt(said[i+1:], 10, 64); err != nil || i < 0 || l.size < 0 {
			return changed, fmt.Errorf("the node reports %.100q as the time and size of a file", said)
		}
		text = said[:i]
	}
	if changed, err = parseTime(text); err == nil && f.clock != 0 && time.Unix(f.clock, 0).Sub(changed) >= stampPatience {
		l.stamp = said
	}
	return changed, err
}

// turn begins the names of another glob. A dot follows the number if the glob names a file and not a folder.
func (f *finder) turn(number string) error {
	number, whole := strings.CutSuffix(number, ".")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= len(f.globs) {
		return fmt.Errorf("the node lists files for a pattern %.100q that it was not asked for", number)
	}
	f.current, f.base = n, f.globs[n].base
	if whole {
		f.base = ""
	}
	return nil
}

// keep adds a name. On average names may have 256 bytes, which bounds the memory for them.
func (f *finder) keep(l listed) error {
	const each = 256
	if _, twice := f.names[l.name]; twice {
		return nil
	}
	if int64(len(f.names)) >= f.most.files() {
		return &LimitError{Files: true, Most: f.most.Files}
	}
	if f.bytes += int64(len(l.name)); f.bytes/each > max(f.most.files(), listingFiles) {
		return errListing
	}
	f.names[l.name] = l
	return nil
}

// parseTime parses a time as stat prints it.
func parseTime(text string) (time.Time, error) {
	t, err := time.Parse("2006-01-02 15:04:05.999999999 -0700", text)
	if err != nil {
		return t, fmt.Errorf("the node reports %.100q as the time of a file", text)
	}
	return t, nil
}

// recordBytes bounds a record: a name, and numbers before it.
const recordBytes = nameBytes + 1<<10

// newRecords splits a node's output at "//".
func newRecords(out io.Reader) *bufio.Scanner {
	records := bufio.NewScanner(out)
	records.Buffer(nil, recordBytes)
	records.Split(splitRecords)
	return records
}

// errRecord returns the error of a scanner of records.
func errRecord(err error) error {
	if errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("the node lists a name of more than %d bytes", nameBytes)
	}
	return err
}
