// Package ignore leaves files out by the rules of .gitignore.
package ignore

import (
	"bytes"
	"io/fs"
	"strings"
)

// A Matcher holds rules and says which paths of a tree they leave out. A nil
// Matcher leaves out nothing. It never changes, so that many can use it at once.
type Matcher struct {
	levels []level
}

// A level is the rules of one .gitignore file. They speak of what is below dir.
type level struct {
	dir   string // with slashes and one at its end, or "" for the tree's root
	rules []rule
}

// New returns a matcher of patterns that stand, as the lines of a .gitignore
// would, in the root of the tree. A later pattern wins over an earlier one. A
// line that is empty, a comment or no valid pattern matches nothing.
func New(patterns []string) *Matcher {
	return &Matcher{levels: []level{{rules: parse(patterns)}}}
}

// Match reports whether a path is left out, by itself or with a folder that it
// is in. The path is relative to the tree's root, with slashes; dir says
// whether it is a folder.
func (m *Matcher) Match(path string, dir bool) bool {
	for i := range len(path) {
		if path[i] == '/' && m.matchOne(path[:i], true) {
			return true
		}
	}
	return m.matchOne(path, dir)
}

// matchOne decides on the path alone: the folders that it is in are not left out.
func (m *Matcher) matchOne(path string, dir bool) bool {
	if m == nil {
		return false
	}
	for _, l := range m.levels {
		below, ok := strings.CutPrefix(path, l.dir)
		if !ok || below == "" {
			continue
		}
		if r := last(l.rules, below, dir); r != nil {
			return !r.negated
		}
	}
	return false
}

// last returns the last rule that speaks of the path, or nil.
func last(rules []rule, path string, dir bool) *rule {
	name := widen(path)
	base := name[strings.LastIndexByte(name, '/')+1:]
	for i := len(rules) - 1; i >= 0; i-- {
		if rules[i].match(name, base, dir) {
			return &rules[i]
		}
	}
	return nil
}

// within returns a matcher that also has the rules of the .gitignore file that
// lies in dir. They win over those of the folders above, but not over the
// patterns given to New, as git has it for those of its command line.
func (m *Matcher) within(dir string, file []byte) *Matcher {
	if dir != "" {
		dir += "/"
	}
	inner := level{dir: dir, rules: parse(lines(file))}
	if m == nil || len(m.levels) == 0 {
		return &Matcher{levels: []level{{}, inner}}
	}
	levels := make([]level, 0, len(m.levels)+1)
	levels = append(levels, m.levels[0], inner)
	return &Matcher{levels: append(levels, m.levels[1:]...)}
}

// lines splits a .gitignore file, which may come from Windows.
func lines(file []byte) []string {
	file = bytes.TrimPrefix(file, []byte("\xef\xbb\xbf"))
	all := strings.Split(string(file), "\n")
	for i, l := range all {
		all[i] = strings.TrimSuffix(l, "\r")
	}
	return all
}

// isFolder reports whether d is a folder, by what it is and not where it leads.
func isFolder(d fs.DirEntry) bool { return d.Type() == fs.ModeDir }
