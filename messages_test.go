package gputrain_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestMessages checks every error message in the sources that users link. A message is part of a
// chain, with others before and after it: it must not name its package, nor end with a colon or a
// full stop.
func TestMessages(t *testing.T) {
	internal, err := os.ReadDir("internal")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"gputrain", "cloud"}
	for _, dir := range internal {
		names = append(names, dir.Name())
	}
	bad := map[string]*regexp.Regexp{
		"the name of its package": regexp.MustCompile(`^(` + strings.Join(names, "|") + `): `),
		"a colon at its end":      regexp.MustCompile(`:\s*$`),
		"a full stop at its end":  regexp.MustCompile(`[^.]\.$`),
		"a word twice":            regexp.MustCompile(twice()),
	}
	forEachMessage(t, func(at, text string) {
		for what, pattern := range bad {
			if pattern.MatchString(text) {
				t.Errorf("%s: %q has %s", at, text, what)
			}
		}
	})
}

// twice matches a word that follows itself. Go's expressions cannot refer back.
func twice() string {
	var all []string
	for _, word := range strings.Fields("a an and by for in is it no not of on or that the to was which with be has than") {
		all = append(all, `\b`+word+" "+word+`\b`)
	}
	return strings.Join(all, "|")
}

// forEachMessage calls f for the text of each errors.New and fmt.Errorf, also if the text is a sum
// of several.
func forEachMessage(t *testing.T, f func(at, text string)) {
	t.Helper()
	tests := []string{"internal/test", "internal/test/fakecloud", "internal/test/opensshtest", "internal/test/usagetest", "internal/test/disktest", "internal/test/e2etest", "internal/test/strangertest",
		"internal/test/bench", "internal/test/seededfaults", "providers/internal/cloudtest", "providers/providertest", "tools", "examples", "scripts"}
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(tests, filepath.ToSlash(path)) || strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			fun, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := fun.X.(*ast.Ident); ok && (pkg.Name == "errors" && fun.Sel.Name == "New" || pkg.Name == "fmt" && fun.Sel.Name == "Errorf") {
				found++
				f(set.Position(call.Pos()).String(), literal(call.Args[0]))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 500 {
		t.Errorf("only %d messages were found", found)
	}
}

// literal returns the known parts of a text. "%s" stands for the others.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return "%s"
}
