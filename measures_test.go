package gputrain_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// These limits may be changed. The commit that changes one says why.
const (
	rootFiles   = 35   // files of code in root
	rootLines   = 6575 // their lines that are neither blank nor comments
	rootNames   = 201  // what root exports: types, functions, constants and variables
	typeFields  = 20   // of a struct that is neither a configuration nor a message
	typeMethods = 30   // of any type
)

// messages are the configurations and messages that have more fields than typeFields, each with a
// description.
var messages = map[string]string{
	"gputrain.Event":                 "a message",
	"gputrain.Spec":                  "a configuration",
	"observe.Node":                   "a message",
	"observe.Task":                   "a message",
	"observe.eventForm":              "an event as a line of JSON",
	"observe/internal/runjson.Node":  "a node as JSON",
	"observe/internal/runjson.Task":  "a task as JSON",
	"internal/fleet.Config":          "a configuration",
	"internal/journal.Task":          "a message",
	"internal/node.Settings":         "a configuration",
	"internal/training.Config":       "a configuration",
	"providers/driver.Capabilities":  "a message",
	"providers/driver.Offer":         "a message",
	"providers/driver.Query":         "a message",
	"providers/aws.Config":           "a configuration",
	"providers/gcp.Config":           "a configuration",
	"providers/kubernetes.Config":    "a configuration",
	"providers/providertest.Harness": "a configuration",
	"providers/runpod.Config":        "a configuration",
	"providers/slurm.Config":         "a configuration",
	"providers/runpod.rentPod":       "what RunPod is sent to rent a pod",
	"providers/vastai.ask":           "an offer as Vast.ai sends it",
	"providers/vastai.Config":        "a configuration",
	"providers/vastai.instance":      "an instance as Vast.ai sends it",
}

// TestMeasures limits the sizes of root and of each type to what a reader can keep in mind.
func TestMeasures(t *testing.T) {
	types := map[string]*measuredType{}
	files, lines, names := 0, 0, map[string]bool{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(name))
		measure(types, dir, parsed)
		if dir == "." {
			files++
			lines += linesOfCode(t, name)
			maps.Copy(names, exported(parsed))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("root: %d files, %d lines of code, %d exported names", files, lines, len(names))
	atMost := func(what string, n, limit int) {
		if n > limit {
			t.Errorf("%s: %d, but the limit is %d", what, n, limit)
		}
	}
	atMost("files of code in root", files, rootFiles)
	atMost("lines of code in root", lines, rootLines)
	atMost("names that root exports", len(names), rootNames)
	for _, name := range slices.Sorted(maps.Keys(types)) {
		m := types[name]
		atMost("methods of "+name, m.methods, typeMethods)
		if _, exempt := messages[name]; !exempt {
			atMost("fields of "+name, m.fields, typeFields)
		} else if m.fields <= typeFields {
			t.Errorf("%s has %d fields: it needs no exemption", name, m.fields)
		}
	}
	for name := range messages {
		if types[name] == nil {
			t.Errorf("%s is exempted, but there is no such type", name)
		}
	}
}

type measuredType struct{ fields, methods int }

// measure adds what one file declares. A method counts for its receiver's type, and an embedded
// field as one field.
func measure(types map[string]*measuredType, dir string, file *ast.File) {
	of := func(name string) *measuredType {
		key := dir + "." + name
		if dir == "." {
			key = "gputrain." + name
		}
		if types[key] == nil {
			types[key] = &measuredType{}
		}
		return types[key]
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil && len(d.Recv.List) == 1 {
				of(receiver(d.Recv.List[0].Type)).methods++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				ts, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if s, ok := ts.Type.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						of(ts.Name.Name).fields += max(1, len(f.Names))
					}
				}
			}
		}
	}
}

// receiver returns the name of a receiver's type, without its pointer and its parameters.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	panic(fmt.Sprintf("a receiver of type %T", x))
}

// exported returns the names that a file declares at its top for users of the package.
func exported(file *ast.File) map[string]bool {
	names := map[string]bool{}
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names[id.Name] = true
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						add(id)
					}
				}
			}
		}
	}
	return names
}

// linesOfCode counts the lines of a file that have a token other than a comment.
func linesOfCode(t *testing.T, name string) int {
	t.Helper()
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	file := set.AddFile(name, -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue // the scanner has inserted it
		}
		first := file.Line(pos)
		for i := range linesIn(text) {
			lines[first+i] = true
		}
	}
}

// linesIn returns how many lines a token spans: a raw string may have several.
func linesIn(text string) int {
	return strings.Count(text, "\n") + 1
}
