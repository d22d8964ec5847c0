package pooltag

import (
	"strings"
)

// A LineForm describes how a cloud holds a tag that has one line of text for each thing: a
// prefix, and the values of the fields between separators, which may be empty. Times are in
// Unix time, leases in seconds. A node's name is without its pool's prefix, or after "=".
type LineForm struct {
	Prefix, Separator string
	Fields            []Field
	// Most bounds the bytes of a line. A longer one omits the owner: the lease then decides
	// whether the pool is alive.
	Most int
}

// String returns the line of a tag.
func (f LineForm) String(t Tag) string {
	if line := f.line(t); len(line) <= f.Most {
		return line
	}
	t.Owner = ""
	return f.line(t)
}

func (f LineForm) line(t Tag) string {
	var values []string
	for _, field := range f.Fields {
		value := Form{}.value(t, field)
		switch {
		case field == Node && value != "":
			name, ours := strings.CutPrefix(value, t.Pool+"-")
			if !ours {
				name = "=" + name
			}
			value = name
		case value == "" && (field == Rank || field == Lease):
			value = "0"
		}
		values = append(values, value)
	}
	return f.Prefix + strings.Join(values, f.Separator)
}

// Parse reads a line. ok is false if it is not gputrain's. It ignores malformed values.
func (f LineForm) Parse(line string) (t Tag, ok bool) {
	rest, ok := strings.CutPrefix(line, f.Prefix)
	values := strings.Split(rest, f.Separator)
	if !ok || len(values) != len(f.Fields) {
		return Tag{}, false
	}
	for i, field := range f.Fields {
		Form{}.read(&t, field, values[i])
	}
	if name, whole := strings.CutPrefix(t.Name, "="); whole {
		t.Name = name
	} else if name != "" {
		t.Name = t.Pool + "-" + name
	}
	if !poolForm.MatchString(t.Pool) {
		return Tag{}, false
	}
	return t, true
}
