package ignore

import (
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// A rule is one line of a .gitignore.
type rule struct {
	glob     string // in doublestar's syntax, over widened text
	negated  bool   // "!": what matches is kept
	dirOnly  bool   // "/" at the end: matches folders only
	anchored bool   // has a "/" elsewhere: matches the whole path, not the last element
}

func (r *rule) match(path, base string, dir bool) bool {
	if r.dirOnly && !dir {
		return false
	}
	if !r.anchored {
		path = base
	}
	return doublestar.MatchUnvalidated(r.glob, path)
}

func parse(lines []string) []rule {
	var rules []rule
	for _, line := range lines {
		if r, ok := parseLine(line); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

// parseLine parses a line. It returns false if the line can match nothing.
func parseLine(line string) (rule, bool) {
	var r rule
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	line = trimSpaces(line)
	line, r.negated = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.anchored = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	glob, ok := translate(widen(line), r.anchored)
	r.glob = glob
	return r, ok && glob != "" && doublestar.ValidatePattern(glob)
}

// trimSpaces removes spaces at the end, unless a backslash protects them.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\':
			i++
			end = min(i+1, len(line))
		case line[i] != ' ':
			end = i + 1
		}
	}
	return line[:end]
}

// widen makes a character of each byte. Git compares bytes, so "?" matches one byte, and names that
// are not valid UTF-8 stay distinct.
func widen(s string) string {
	ascii := true
	for i := range len(s) {
		ascii = ascii && s[i] < utf8.RuneSelf
	}
	if ascii {
		return s
	}
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}
