package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// module is where Secret is declared, in this package or one below it.
const module = "github.com/gputrain/gputrain"

// directive takes a field out of the report, with the reason: the Secret is emptied
// before the struct is kept, or nothing prints the struct.
const directive = "//secretvet:ignore "

// Analyzer reports unexported fields that hold a gputrain.Secret.
var Analyzer = &analysis.Analyzer{
	Name: "secretvet",
	Doc: `report unexported fields that hold a gputrain.Secret

The fmt package calls no methods on what it reaches through an unexported field, so
that a Secret there, or in a struct, slice, array or map there, is printed in clear by %v of the
struct. What is behind a pointer or a function is not printed.

A struct type with a Format method of its own is not reported, nor is a field whose
comment has the line "//secretvet:ignore REASON".`,
	URL:      "https://pkg.go.dev/" + module + "/tools/secretvet",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      run,
}

func run(pass *analysis.Pass) (any, error) {
	files := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	formats := map[*ast.StructType]bool{} // structs of types that print themselves
	files.Preorder([]ast.Node{(*ast.TypeSpec)(nil)}, func(n ast.Node) {
		spec := n.(*ast.TypeSpec)
		if s, ok := spec.Type.(*ast.StructType); ok && hasFormat(pass.TypesInfo.Defs[spec.Name]) {
			formats[s] = true
		}
	})
	files.Preorder([]ast.Node{(*ast.StructType)(nil)}, func(n ast.Node) {
		s := n.(*ast.StructType)
		if formats[s] {
			return
		}
		for _, field := range s.Fields.List {
			if ignored(field) {
				continue
			}
			t := pass.TypesInfo.TypeOf(field.Type)
			for name := range names(field) {
				if at := secretIn(t, name.embedded); at != "" && !token.IsExported(name.text) && name.text != "_" {
					pass.ReportRangef(field, "unexported field %s holds a gputrain.Secret (%s%s), which fmt prints in clear: "+
						"keep a func that returns it, export the field, or give the type a Format method", name.text, name.text, at)
				}
			}
		}
	})
	return nil, nil
}

// hasFormat reports whether a type has a method that fmt calls for every verb.
func hasFormat(obj types.Object) bool {
	if obj == nil {
		return false
	}
	m, _, _ := types.LookupFieldOrMethod(obj.Type(), false, obj.Pkg(), "Format")
	f, ok := m.(*types.Func)
	return ok && f.Signature().Params().Len() == 2 && types.TypeString(f.Signature().Params().At(0).Type(), nil) == "fmt.State"
}

func ignored(field *ast.Field) bool {
	for _, group := range []*ast.CommentGroup{field.Doc, field.Comment} {
		if group == nil {
			continue
		}
		for _, c := range group.List {
			if reason, ok := strings.CutPrefix(c.Text, directive); ok && strings.TrimSpace(reason) != "" {
				return true
			}
		}
	}
	return false
}

// A fieldName is one of the names of a field in the source.
type fieldName struct {
	text     string
	embedded bool
}

func names(field *ast.Field) func(yield func(fieldName) bool) {
	return func(yield func(fieldName) bool) {
		for _, id := range field.Names {
			if !yield(fieldName{id.Name, false}) {
				return
			}
		}
		if len(field.Names) == 0 {
			yield(fieldName{embeddedName(field.Type), true})
		}
	}
}

func embeddedName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return embeddedName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return embeddedName(e.X)
	case *ast.IndexListExpr:
		return embeddedName(e.X)
	}
	return "_"
}

// secretIn returns how a Secret is reached from a value without following a
// pointer, as ".Config.APIKey" or "[]"; " itself" if the value is one, and "" if it has
// none. fmt does call the methods of what is exported in an embedded struct: the rest
// is reported at that struct.
func secretIn(t types.Type, embedded bool) string {
	if _, isStruct := t.Underlying().(*types.Struct); embedded && isStruct {
		return ""
	}
	at, found := path(t, map[types.Type]bool{})
	switch {
	case !found:
		return ""
	case at == "":
		return " itself"
	}
	return at
}

func path(t types.Type, seen map[types.Type]bool) (at string, found bool) {
	t = types.Unalias(t)
	if seen[t] {
		return "", false
	}
	seen[t] = true
	if named, ok := t.(*types.Named); ok && isSecret(named.Obj()) {
		return "", true
	}
	switch u := t.Underlying().(type) {
	case *types.Array:
		return below("[]", u.Elem(), seen)
	case *types.Slice:
		return below("[]", u.Elem(), seen)
	case *types.Map:
		if at, found := below("[key]", u.Key(), seen); found {
			return at, found
		}
		return below("[]", u.Elem(), seen)
	case *types.Struct:
		for i := range u.NumFields() {
			if at, found := below("."+u.Field(i).Name(), u.Field(i).Type(), seen); found {
				return at, found
			}
		}
	}
	return "", false
}

func below(step string, t types.Type, seen map[types.Type]bool) (string, bool) {
	at, found := path(t, seen)
	return step + at, found
}

func isSecret(obj *types.TypeName) bool {
	if obj.Name() != "Secret" || obj.Pkg() == nil {
		return false
	}
	at := obj.Pkg().Path()
	return at == module || strings.HasPrefix(at, module+"/")
}
