package gputrain_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests that SAFETY.md and SECURITY.md name for their promises exist: `TestName`, `TestName/Case`, or `TestBegins...`.
func TestPromisesNameTests(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	var all []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			all = append(all, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := "\n" + strings.Join(all, "\n") + "\n"
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)(?:/\\w+)?(\\.\\.\\.)?`")
	for _, page := range []string{"SAFETY.md", "SECURITY.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := named.FindAllSubmatch(text, -1)
		for _, m := range found {
			want := "\n" + string(m[1])
			if len(m[2]) == 0 {
				want += "\n"
			}
			if !strings.Contains(names, want) {
				t.Errorf("%s names %s, and there is no such test", page, m[0])
			}
		}
		if len(found) < 20 {
			t.Errorf("%s names %d tests", page, len(found))
		}
	}
}
