package gputrain_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writers are the types that keep what is written to them, each with what bounds it. What nodes and commands say is kept by them or
// by bounded.Buffer.
var writers = map[string]string{
	"internal/bootstrap.limited":    "limited.most",
	"internal/bootstrap.tail":       "tailLines of tailWidth",
	"internal/bootstrap.watched":    "longestLine",
	"internal/calls.stream":         "OutputMark",
	"internal/credential.Writer":    "longestSecret",
	"internal/output.Spool":         "Spool.most",
	"internal/ssh.conn":             "chunk, for what a user's program sends",
	"internal/output.Lines":         "maxHeld",
	"internal/output.Tail":          "tailBytes",
	"internal/secretref.bounded":    "bounded.most",
	"internal/stacks.answer":        "mostBytes",
	"internal/steps.Writer":         "longestLine",
	"internal/supervisor.spool":     "a task's own stdin, in a file beyond spoolMemory",
	"internal/supervisor.tail":      "tailBytes",
	"internal/telemetry.lines":      "maxLine",
	"internal/transfer.complaint":   "its own constant",
	"observe/report.firstBytes":     "firstBytes.most",
	"providers/container.watcher":   "keepOutput",
	"providers/kubernetes.tail":     "its own constant",
	"providers/slurm.output":        "maxOutput",
	"providers/slurm.tail":          "its own constant",
	"internal/bounded.Buffer":       "Buffer.Most",
	"internal/preflight.lineReader": "bounded.Buffer",
	"internal/preflight.stamped":    "bounded.Buffer",
}

// speakers are packages that read no answers: tests, and nodes.
var speakers = []string{"internal/test", "internal/simnode", "providers/providertest", "providers/internal/cloudtest", "providers/internal/readme", "examples", "scripts", "tools"}

// TestAnswersAreBounded refuses code that keeps without a bound what a node, a command or a file says.
func TestAnswersAreBounded(t *testing.T) {
	kept := map[string]bool{}
	set, packages := token.NewFileSet(), map[string][]*ast.File{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		dir := path.Dir(filepath.ToSlash(name))
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"),
			slices.ContainsFunc(speakers, func(s string) bool { return inFolder(dir, s) }):
			return nil
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		packages[dir] = append(packages[dir], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, files := range packages {
		found, types := unboundedIn(set, files)
		for _, wrong := range found {
			t.Error(wrong)
		}
		for _, name := range types {
			kept[dir+"."+name] = true
			if writers[dir+"."+name] == "" {
				t.Errorf("%s.%s keeps what is written to it: use bounded.Buffer, or list what bounds it", dir, name)
			}
		}
	}
	for name := range writers {
		if !kept[name] {
			t.Errorf("%s is listed, but there is no such type, or it keeps nothing", name)
		}
	}
}

// unboundedIn returns what a package does that keeps an answer without a bound, and its types that keep what is written to them.
func unboundedIn(set *token.FileSet, files []*ast.File) (found, types []string) {
	fields := map[string]*ast.StructType{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if n, ok := n.(*ast.TypeSpec); ok {
				fields[n.Name.Name], _ = n.Type.(*ast.StructType)
			}
			return true
		})
	}
	for _, file := range files {
		f, t := unboundedInFile(set, file, fields)
		found, types = append(found, f...), append(types, t...)
	}
	return found, types
}

// buffersOf returns the variables and fields of a file that are buffers of the standard library, by their names.
func buffersOf(file *ast.File) map[string]bool {
	buffers := map[string]bool{}
	add := func(names []*ast.Ident, kind ast.Expr) {
		for _, id := range names {
			buffers[id.Name] = buffers[id.Name] || kind != nil && grows(kind)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			add(n.Names, n.Type)
		case *ast.ValueSpec:
			add(n.Names, n.Type)
		case *ast.AssignStmt:
			for i, value := range n.Rhs {
				if id, ok := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.Ident); ok && growing(value, nil) {
					buffers[id.Name] = true
				}
			}
		}
		return true
	})
	return buffers
}

func unboundedInFile(set *token.FileSet, file *ast.File, fields map[string]*ast.StructType) (found, types []string) {
	wrong := func(n ast.Node, why string) { found = append(found, fmt.Sprintf("%s: %s", set.Position(n.Pos()), why)) }
	buffers := buffersOf(file)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			fun, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			from, _ := fun.X.(*ast.Ident)
			switch name := fun.Sel.Name; {
			case strings.HasPrefix(name, "Exec") || name == "Run" || name == "Resume" || name == "Shell":
				for _, arg := range n.Args {
					if growing(arg, buffers) {
						wrong(arg, name+" has an unbounded buffer for a command's output: use bounded.Buffer")
					}
				}
			case len(n.Args) == 0 && (name == "CombinedOutput" || name == "Output" && !isCallOf(fun.X, "")):
				wrong(n, name+" keeps all that a command prints: use bounded.Buffer")
			case from != nil && from.Name == "io" && name == "ReadAll" && !isCallOf(n.Args[0], "LimitReader") && !isCallOf(n.Args[0], "MaxBytesReader"):
				wrong(n, "io.ReadAll has no bound: use bounded.ReadAll")
			case from != nil && from.Name == "io" && strings.HasPrefix(name, "Copy") && name != "CopyN" && growing(n.Args[0], buffers) && !isCallOf(n.Args[1], "LimitReader"):
				wrong(n, "io.Copy into a buffer has no bound: use bounded.Buffer")
			case len(n.Args) == 1 && (name == "ReadBytes" || name == "ReadString"):
				wrong(n, name+" keeps a line without end: use ReadSlice, or a Scanner")
			case name == "ReadFrom" && growing(fun.X, buffers):
				wrong(n, "ReadFrom has no bound: use bounded.ReadAll")
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if sel, ok := to.(*ast.SelectorExpr); ok && isStream(sel.Sel.Name) && growing(n.Rhs[min(i, len(n.Rhs)-1)], buffers) {
					wrong(n, sel.Sel.Name+" is an unbounded buffer: use bounded.Buffer")
				}
			}
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok && isStream(id.Name) && growing(n.Value, buffers) {
				wrong(n, id.Name+" is an unbounded buffer: use bounded.Buffer")
			}
		case *ast.FuncDecl:
			if n.Recv == nil || n.Name.Name != "Write" || len(n.Recv.List) != 1 || n.Type.Params.NumFields() != 1 {
				return true
			}
			name := receiver(n.Recv.List[0].Type)
			if s := fields[name]; s != nil && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool { return keeps(f.Type) }) {
				types = append(types, name)
			}
		}
		return true
	})
	return found, types
}

func isStream(name string) bool { return name == "Stdout" || name == "Stderr" }

// grows reports whether a type is a buffer of the standard library, or a pointer to one.
func grows(x ast.Expr) bool {
	if star, ok := x.(*ast.StarExpr); ok {
		x = star.X
	}
	sel, ok := x.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, _ := sel.X.(*ast.Ident)
	return from != nil && (from.Name == "bytes" && sel.Sel.Name == "Buffer" || from.Name == "strings" && sel.Sel.Name == "Builder")
}

// keeps reports whether a field can hold what is written.
func keeps(x ast.Expr) bool {
	switch f := x.(type) {
	case *ast.ArrayType:
		return f.Len == nil
	case *ast.SelectorExpr:
		if from, ok := f.X.(*ast.Ident); ok && from.Name == "bounded" {
			return true
		}
	}
	return grows(x)
}

// growing reports whether an expression is such a buffer: a new one, or one of some variables.
func growing(x ast.Expr, buffers map[string]bool) bool {
	switch x := x.(type) {
	case *ast.UnaryExpr:
		return x.Op == token.AND && growing(x.X, buffers)
	case *ast.CompositeLit:
		return x.Type != nil && grows(x.Type)
	case *ast.CallExpr:
		id, _ := x.Fun.(*ast.Ident)
		return id != nil && id.Name == "new" && grows(x.Args[0]) || isCallOf(x, "NewBuffer")
	case *ast.Ident:
		return buffers[x.Name]
	case *ast.SelectorExpr:
		return buffers[x.Sel.Name]
	}
	return false
}

// isCallOf reports whether an expression calls a package's function, or any if name is "".
func isCallOf(x ast.Expr, name string) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return name == "" || ok && sel.Sel.Name == name
}

// The check finds each way to keep an answer without a bound, and allows what is bounded.
func TestUnboundedIsFound(t *testing.T) {
	for _, line := range []string{
		"var b bytes.Buffer; n.Exec(ctx, text, nil, &b, nil)",
		"var b strings.Builder; n.ExecMoving(ctx, text, nil, nil, &b)",
		"b := new(bytes.Buffer); n.Exec(ctx, text, nil, b, nil)",
		"b := &bytes.Buffer{}; n.Exec(ctx, text, nil, b, nil)",
		"b := bytes.NewBuffer(nil); n.Exec(ctx, text, nil, b, nil)",
		"n.Exec(ctx, text, nil, &bytes.Buffer{}, nil)",
		"n.Exec(ctx, text, nil, &s.buf, nil)",
		"var b bytes.Buffer; cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, nil, &b",
		"var b bytes.Buffer; run(Sinks{Stdout: &b})",
		"cmd.CombinedOutput()", "cmd.Output()", "io.ReadAll(resp.Body)", "r.ReadBytes('x')", "r.ReadString('x')",
		"var b bytes.Buffer; io.Copy(&b, s)", "var b bytes.Buffer; b.ReadFrom(s)",
	} {
		if found, _ := unboundedInText(t, line); len(found) != 1 {
			t.Errorf("%s: %q", line, found)
		}
	}
	for _, line := range []string{
		"var b bounded.Buffer; n.Exec(ctx, text, nil, &b, nil)", "n.Exec(ctx, text, nil, nil, io.Discard)", "io.ReadAll(io.LimitReader(s, 1))",
		"var b bytes.Buffer; io.Copy(&b, io.LimitReader(s, 1))", "r.ReadSlice('x')", "var b bytes.Buffer; b.WriteString(`x`); n.Exec(ctx, b.String(), nil, nil, nil)",
	} {
		if found, _ := unboundedInText(t, line); len(found) != 0 {
			t.Errorf("%s: %q", line, found)
		}
	}
	if _, types := unboundedInText(t, ""); !slices.Equal(types, []string{"keeper"}) {
		t.Errorf("%q keep what is written to them", types)
	}
}

func unboundedInText(t *testing.T, line string) (found, types []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "made-up.go", `package p
type keeper struct { buf bytes.Buffer }
func (k *keeper) Write(p []byte) (int, error) { return k.buf.Write(p) }
type passer struct { to io.Writer }
func (k *passer) Write(p []byte) (int, error) { return k.to.Write(p) }
func f() { `+line+` }`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return unboundedIn(set, []*ast.File{file})
}
