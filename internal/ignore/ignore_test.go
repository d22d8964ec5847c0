package ignore

import (
	"testing"
)

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		name     string
		patterns []string
		ignored  []string // a slash at the end marks a folder
		kept     []string
	}{
		{"nothing", nil, nil, []string{"a", "a/b"}},
		{"blank, comment, bare signs", []string{"", "# a", "!", "/", "  "}, nil, []string{"a", "# a", "!"}},
		{"name at any depth", []string{"a"}, []string{"a", "x/a", "a/", "a/b/c"}, []string{"ab", "b/ab"}},
		{"anchored by its first slash", []string{"/a"}, []string{"a", "a/b"}, []string{"x/a"}},
		{"anchored by a slash inside", []string{"a/b"}, []string{"a/b", "a/b/c"}, []string{"x/a/b", "b"}},
		{"folders only", []string{"build/"}, []string{"build/", "x/build/", "build/a"}, []string{"build", "x/build"}},
		{"star stays in its element", []string{"/a*z"}, []string{"az", "abcz"}, []string{"a/z"}},
		{"question mark", []string{"a?c"}, []string{"abc"}, []string{"ac", "a/c"}},
		{"leading double star", []string{"**/a/b"}, []string{"a/b", "x/y/a/b"}, []string{"a/x/b"}},
		{"trailing double star", []string{"a/**"}, []string{"a/b", "a/b/c"}, []string{"a", "a/", "b/a/c"}},
		{"inner double star", []string{"a/**/b"}, []string{"a/b", "a/x/b", "a/x/y/b"}, []string{"b", "x/a/b"}},
		{"double star as part", []string{"a/b**c"}, []string{"a/bc", "a/bxc"}, []string{"a/b/c"}},
		{"negation", []string{"*.log", "!keep.log"}, []string{"a.log"}, []string{"keep.log", "x/keep.log"}},
		{"a folder left out keeps its files out", []string{"out/", "!out/a"}, []string{"out/", "out/a"}, nil},
		{"contents left out, one kept", []string{"out/*", "!out/a"}, []string{"out/b"}, []string{"out/", "out/a"}},
		{"later wins", []string{"!a", "a"}, []string{"a"}, nil},
		{"escaped signs", []string{`\#a`, `\!b`, `c\*`}, []string{"#a", "!b", "c*"}, []string{"cx"}},
		{"spaces at the end", []string{"a  ", `b\ `, `c\  `}, []string{"a", "b ", "c "}, []string{"a  ", "b", "c  "}},
		{"a space inside", []string{"a b"}, []string{"a b"}, []string{"a"}},
		{"a backslash at the end", []string{`a\`}, nil, []string{"a", `a\`}},
		{"classes", []string{"[a-c]x", "[!a-c]y", "[]z]w", "[[:digit:]]"},
			[]string{"ax", "dy", "]w", "zw", "7"}, []string{"dx", "ay", "aw", "x"}},
		{"no such class, never closed", []string{"[[:nope:]]", "[a"}, nil, []string{"n", "[a", "a"}},
		{"braces mean nothing", []string{"{a,b}"}, []string{"{a,b}"}, []string{"a", "b"}},
		{"bytes that are no UTF-8", []string{"\xff*"}, []string{"\xffa"}, []string{"\xfea", "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := New(tt.patterns)
			for want, paths := range map[bool][]string{true: tt.ignored, false: tt.kept} {
				for _, p := range paths {
					name, dir := folder(p)
					if got := m.Match(name, dir); got != want {
						t.Errorf("%q: Match(%q) = %v, want %v", tt.patterns, p, got, want)
					}
				}
			}
		})
	}
}

func TestNilMatcher(t *testing.T) {
	if (*Matcher)(nil).Match("a", false) || new(Matcher).Match("a", true) {
		t.Error("a nil Matcher excludes a path")
	}
}

// folder removes the slash that marks a folder.
func folder(p string) (string, bool) {
	if n := len(p) - 1; n > 0 && p[n] == '/' {
		return p[:n], true
	}
	return p, false
}

func FuzzMatch(f *testing.F) {
	for _, s := range []string{"a", "!a/", "**/a", "a/**", "[a-z]*", `\`, "[", "[]", "[[:alpha:]]", "{a,b}", "\xff[\xff-\xfe]", "a\\ "} {
		f.Add(s, "a/b", true)
	}
	f.Fuzz(func(t *testing.T, pattern, path string, dir bool) {
		m := New([]string{pattern})
		if m.Match(path, dir) && New([]string{pattern, "!" + pattern}).matchOne(path, dir) && pattern != "" && pattern[0] != '!' {
			t.Errorf("%q excludes %q although its negation comes later", pattern, path)
		}
		if path != "" && m.Match(path, dir) && !m.Match(path+"/below", false) && dir {
			t.Errorf("%q excludes the folder %q but not a file in it", pattern, path)
		}
	})
}
