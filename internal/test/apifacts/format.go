package apifacts

import (
	"maps"
	"slices"
	"strings"
)

// format writes a description. An object or a list that fits stands on one line. Keys are sorted.
func format(doc map[string]any) []byte {
	var b strings.Builder
	write(&b, doc, "", 0)
	return []byte(b.String() + "\n")
}

// write writes a value whose line has so many characters before it.
func write(b *strings.Builder, v any, indent string, before int) {
	line := text(v)
	below := indent + " "
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 && before+len(line) > 150 {
			for i, k := range slices.Sorted(maps.Keys(v)) {
				b.WriteString([]string{"{", ","}[min(i, 1)] + "\n" + below + text(k) + ": ")
				write(b, v[k], below, len(below)+len(text(k))+2)
			}
			line = "\n" + indent + "}"
		}
	case []any:
		if len(v) > 0 && before+len(line) > 150 {
			for i, x := range v {
				b.WriteString([]string{"[", ","}[min(i, 1)] + "\n" + below)
				write(b, x, below, len(below))
			}
			line = "\n" + indent + "]"
		}
	}
	b.WriteString(line)
}
