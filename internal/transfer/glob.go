package transfer

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// A glob is a pattern of files on the node, in doublestar's syntax: "*" matches within one element of a path, "**" any
// number of elements. A pattern without special characters that names a folder matches all that is in it.
type glob struct {
	text  string
	base  string // the folder to search, or all of a plain pattern
	deep  bool   // the pattern needs a recursive search
	plain bool   // the pattern has no special characters
	depth int    // how many elements are left after base, unless deep
}

// CheckPattern reports what is wrong with a pattern of files, without asking a node.
func CheckPattern(text string) error {
	_, err := parseGlob(text)
	return err
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
	if !strings.ContainsAny(text, signs) {
		return glob{text: clean, base: clean, deep: true, plain: true}, nil
	}
	elements := elements(text)
	n := slices.IndexFunc(elements, func(e string) bool { return strings.ContainsAny(e, signs) })
	rest := strings.Join(elements[n:], "/")
	return glob{
		text:  strings.Join(elements, "/"),
		base:  path.Join(".", path.Join(elements[:n]...)),
		deep:  strings.Contains(rest, "**") || strings.Contains(rest, "{"),
		depth: len(elements) - n,
	}, nil
}

// signs are the special characters of a pattern.
const signs = `*?[{\`

// elements splits a pattern, and drops the elements "" and ".".
func elements(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "/"), func(e string) bool { return e == "" || e == "." })
}

// match reports whether the glob names a file.
func (g *glob) match(name string) bool {
	if g.plain {
		return g.text == "." || name == g.text || strings.HasPrefix(name, g.text+"/")
	}
	return doublestar.MatchUnvalidated(g.text, name)
}

// Unmatched returns the globs that match none of the files.
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
