package ignore

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// git runs git in a repository, without any user's configuration.
func git(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git on this machine to compare with: install git")
	}
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	cmd.Stdin = strings.NewReader(stdin)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() != 1) {
		t.Fatalf("git %q: %v: %s", args, err, errs.Bytes())
	}
	return string(out)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// paths is a tree that random patterns of the letters a, b and c can match.
var paths = []string{
	"a", "b/", "b/a", "b/b/", "b/b/c", "b/ab", "c/", "c/a/", "c/a/b/", "c/a/b/c", "ab", "abc", "ba/", "ba/c", "c/b c", "c/a ",
	"[a]", "a-b", "!a", "#a", "é", "a*", "a\\b", "c/\xff", ".a", "b/.b", "{a,b}", "c/a/b/abc/", "c/a/b/abc/b",
}

// oddity matches patterns for which git differs from its manual: "a**/b" matches "ab" in git,
// although stars beside a letter should act as one ordinary star.
var oddity = regexp.MustCompile(`[^!/*]\*\*+/|.![^/]*\*\*+/`)

// TestAgainstGit compares Match with git on random patterns. Each set of patterns has a folder of
// its own with the same tree.
func TestAgainstGit(t *testing.T) {
	const cases = 400
	repo := t.TempDir()
	git(t, repo, "", "init", "-q")
	rnd := rand.New(rand.NewPCG(1, 2))
	var ask strings.Builder
	patterns := make([][]string, cases)
	for i := range patterns {
		for range 1 + rnd.IntN(3) {
			p := randomPattern(rnd)
			for oddity.MatchString(p) {
				p = randomPattern(rnd)
			}
			patterns[i] = append(patterns[i], p)
		}
		dir := filepath.Join(repo, fmt.Sprint(i))
		write(t, filepath.Join(dir, ".gitignore"), strings.Join(patterns[i], "\n")+"\n")
		for _, p := range paths {
			name, isDir := folder(p)
			if isDir {
				if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
					t.Fatal(err)
				}
			} else {
				write(t, filepath.Join(dir, name), "")
			}
			fmt.Fprintf(&ask, "%d/%s\x00", i, name)
		}
	}
	ignored := make(map[string]bool)
	for p := range strings.SplitSeq(git(t, repo, ask.String(), "check-ignore", "--no-index", "--stdin", "-z"), "\x00") {
		ignored[p] = true
	}
	if len(ignored) < cases {
		t.Fatalf("git ignores only %d paths: the patterns test too little", len(ignored))
	}
	for i, lines := range patterns {
		m := New(lines)
		for _, p := range paths {
			name, isDir := folder(p)
			if got, want := m.Match(name, isDir), ignored[fmt.Sprintf("%d/%s", i, name)]; got != want {
				t.Errorf("%q: Match(%q) = %v, git says %v", lines, p, got, want)
			}
		}
	}
}

func randomPattern(rnd *rand.Rand) string {
	parts := []string{
		"a", "b", "c", "ab", "*", "**", "/", "/**/", "**/", "/**", "?", "[ab]", "[!a]", "[^bc]", "[[:alpha:]]", "[a-c]", "[]a]",
		" ", `\ `, `\*`, `\a`, "***", "{a,b}", "[a", "é", "\xff", "-", ".", "[!]]", "[a/]", "[--a]",
	}
	var b strings.Builder
	if rnd.IntN(4) == 0 {
		b.WriteString("!")
	}
	for range 1 + rnd.IntN(4) {
		b.WriteString(parts[rnd.IntN(len(parts))])
	}
	if rnd.IntN(5) == 0 {
		b.WriteString("/")
	}
	return b.String()
}

// TestWalkAgainstGit compares a walk, with nested rules, with the files that git would add.
func TestWalkAgainstGit(t *testing.T) {
	repo := t.TempDir()
	git(t, repo, "", "init", "-q")
	for name, text := range map[string]string{
		".gitignore": "\ufeff*.log\r\n/only-here\r\nbuild/\r\n!important.log\n",
		"a.log":      "", "important.log": "", "only-here": "", "x/only-here": "", "x/a.log": "", "x/y/b.log": "",
		"x/.gitignore": "!a.log\n*.tmp\n/local\n",
		"x/a.tmp":      "", "a.tmp": "", "x/local": "", "x/y/local": "", "x/y/.gitignore": "*\n!.gitignore\n!sub/\n!sub/**\n",
		"x/y/z": "", "x/y/sub/z": "", "build/a": "", "x/build/a": "", "y/build": "",
		"w/.gitignore/is-here": "",
	} {
		write(t, filepath.Join(repo, filepath.FromSlash(name)), text)
	}
	want := strings.FieldsFunc(git(t, repo, "", "ls-files", "-z", "-o", "--exclude-standard"), func(r rune) bool { return r == 0 })
	if got := files(t, repo, nil, Walk); !slices.Equal(got, sorted(want)) {
		t.Errorf("Walk found\n %q, git\n %q", got, sorted(want))
	}
	// Patterns given to New act like git's --exclude: they take precedence.
	want = strings.FieldsFunc(git(t, repo, "", "ls-files", "-z", "-o", "--exclude=!only-here", "--exclude=/w", "--exclude-standard"), func(r rune) bool { return r == 0 })
	if got := files(t, repo, New([]string{"!only-here", "/w"}), Walk); !slices.Equal(got, sorted(want)) {
		t.Errorf("with patterns Walk found\n %q, git\n %q", got, sorted(want))
	}
	all := files(t, repo, New([]string{".git/"}), WalkAll)
	if !slices.Contains(all, "a.log") || !slices.Contains(all, "x/y/z") || slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, ".git/") }) {
		t.Errorf("WalkAll found %q", all)
	}
}

func sorted(s []string) []string { slices.Sort(s); return s }

func files(t *testing.T, root string, m *Matcher, walk func(string, *Matcher, WalkFunc) error) []string {
	t.Helper()
	var got []string
	err := walk(root, m, func(path string, d fs.DirEntry) error {
		if !d.IsDir() {
			got = append(got, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sorted(got)
}

func TestWalkFollowsAndSkips(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(root, "skip", "a"), "")
	write(t, filepath.Join(other, "b"), "")
	if err := os.Symlink(other, filepath.Join(root, "link")); err != nil {
		t.Skip(err)
	}
	var got []string
	err := WalkAll(root, nil, func(path string, d fs.DirEntry) error {
		got = append(got, path)
		switch path {
		case "skip":
			return fs.SkipDir
		case "link":
			return ErrFollow
		}
		return nil
	})
	if want := []string{"link", "link/b", "skip"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("walked %q, %v; want %q", got, err, want)
	}
}
