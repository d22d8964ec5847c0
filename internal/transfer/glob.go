package transfer

import (
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// A glob is a pattern of files on the node, as doublestar has them: "*" stays
// within one element of a path, "**" does not. A pattern without such signs
// that names a folder stands for all that is in it.
type glob struct {
	text  string
	base  string // the folder to look in, or all of a pattern without signs
	deep  bool   // has to look in folders within folders
	plain bool   // has no signs
	depth int    // how many elements are left after base, unless deep
}

func parseGlob(text string) (glob, error) {
	clean := path.Clean(text)
	switch {
	case text == "":
		return glob{}, fmt.Errorf("the pattern is empty")
	case strings.IndexByte(text, 0) >= 0:
		return glob{}, fmt.Errorf("the pattern %q holds a NUL byte", text)
	case path.IsAbs(text), clean == "..", strings.HasPrefix(clean, "../"):
		return glob{}, fmt.Errorf("the pattern %q leads out of the folder: it must be relative and go down only", text)
	case !doublestar.ValidatePattern(text):
		return glob{}, fmt.Errorf("the pattern %q is not valid: is a bracket or brace not closed?", text)
	}
	for element := range strings.SplitSeq(text, "/") {
		if element == ".." {
			return glob{}, fmt.Errorf("the pattern %q climbs with ..: write the path without", text)
		}
	}
	if !strings.ContainsAny(text, `*?[{\`) {
		return glob{text: clean, base: clean, deep: true, plain: true}, nil
	}
	text = tidy(text)
	base, rest := doublestar.SplitPattern(text)
	base = path.Clean(base) // it is unescaped only now
	if path.IsAbs(base) || base == ".." || strings.HasPrefix(base, "../") {
		return glob{}, fmt.Errorf("the pattern %q leads out of the folder: it must be relative and go down only", text)
	}
	return glob{text: text, base: base, deep: strings.Contains(rest, "**") || strings.Contains(rest, "{"), depth: strings.Count(rest, "/") + 1}, nil
}

// tidy removes empty and "." elements, without a look inside brackets.
func tidy(text string) string {
	var elements []string
	for e := range strings.SplitSeq(text, "/") {
		if e != "" && e != "." {
			elements = append(elements, e)
		}
	}
	return strings.Join(elements, "/")
}

// match reports whether the glob names a file.
func (g *glob) match(name string) bool {
	if g.plain {
		return g.text == "." || name == g.text || strings.HasPrefix(name, g.text+"/")
	}
	return doublestar.MatchUnvalidated(g.text, name)
}

// Unmatched returns those globs that name none of the files.
func Unmatched(globs []string, files []File) []string {
	var none []string
	for _, text := range globs {
		g, err := parseGlob(text)
		found := false
		for i := range files {
			found = found || err == nil && g.match(files[i].Name)
		}
		if !found {
			none = append(none, text)
		}
	}
	return none
}
