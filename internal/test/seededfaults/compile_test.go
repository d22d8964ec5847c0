package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A fault that does not compile tests nothing.
func TestFaultsCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it compiles what the faults change")
	}
	lists, err := filepath.Glob("../../../providers/*/testdata/seeded-faults.txt")
	if err != nil || len(lists) == 0 {
		t.Fatal(lists, err)
	}
	exports := map[string]string{}
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}")
	for _, l := range lists {
		list.Args = append(list.Args, filepath.Dir(filepath.Dir(l)))
	}
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		exports[name] = file
	}
	fset := token.NewFileSet()
	packages := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		file, ok := exports[path]
		if !ok {
			return nil, fmt.Errorf("go list does not name %s", path)
		}
		return os.Open(file)
	})
	for _, l := range lists {
		faults, err := read(filepath.Dir(filepath.Dir(l)))
		if err != nil {
			t.Error(err)
		}
		for _, f := range faults {
			if err := f.compiles(fset, packages); err != nil {
				t.Errorf("%s: %s: %v", f.provider, f.name, err)
			}
		}
	}
}

// compiles checks the types of the provider's package with the fault.
func (f fault) compiles(fset *token.FileSet, packages types.Importer) error {
	paths, err := filepath.Glob(filepath.Join(f.provider, "*.go"))
	if err != nil {
		return err
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		if ours, err := build.Default.MatchFile(f.provider, filepath.Base(path)); err != nil {
			return err
		} else if !ours {
			continue // it is another system's
		}
		var source any
		if filepath.Base(path) == f.file {
			if source, err = f.seeded(); err != nil {
				return err
			}
		}
		file, err := parser.ParseFile(fset, path, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	_, err = (&types.Config{Importer: packages}).Check(f.provider, fset, files, nil)
	return err
}
