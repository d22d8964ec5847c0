package main

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// MainVars reports functions for nodes that read what main alone sets.
var MainVars = &analysis.Analyzer{
	Name: "mainvars",
	Doc: `report functions for nodes that read variables which main sets

On a node gputrain.Init serves the program's functions and does not return, and the program has
other arguments. So a package-level variable that main sets after Init, and every flag, has the
value of its declaration there, without an error. It is to be an argument of the function.

Looked at are functions that a main package gives to gputrain.Func, GeneratorFunc, ConsumerFunc and
PipeFunc, with the functions of the package that they use.`,
	URL: "https://pkg.go.dev/" + module + "/tools/secretvet",
	Run: func(pass *analysis.Pass) (any, error) {
		if pass.Pkg.Name() == "main" {
			newProgram(pass).check()
		}
		return nil, nil
	},
}

// A program is a main package.
type program struct {
	*analysis.Pass
	bodies map[types.Object]ast.Node // of functions, and of variables that are functions
	flags  map[types.Object]bool     // variables like flag.Int("n", 1, "")
}

func newProgram(pass *analysis.Pass) *program {
	p := &program{Pass: pass, bodies: map[types.Object]ast.Node{}, flags: map[types.Object]bool{}}
	for _, file := range pass.Files {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Body != nil {
					p.bodies[pass.TypesInfo.Defs[d.Name]] = d.Body
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && len(v.Values) == len(v.Names) {
						for i, name := range v.Names {
							p.declared(pass.TypesInfo.Defs[name], v.Values[i])
						}
					}
				}
			}
		}
	}
	return p
}

func (p *program) declared(name types.Object, value ast.Expr) {
	switch value := value.(type) {
	case *ast.FuncLit:
		p.bodies[name] = value.Body
	case *ast.CallExpr:
		if f := p.callee(value); f != nil && f.Pkg() != nil && f.Pkg().Path() == "flag" {
			if _, pointer := p.TypesInfo.TypeOf(value).(*types.Pointer); pointer {
				p.flags[name] = true
			}
		}
	}
}

// check reports reads of what main sets.
func (p *program) check() {
	set := p.setByMain()
	for _, file := range p.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 || !isRegistration(p.callee(call)) {
				return true
			}
			uses := p.reached(call.Args[1])
			own := map[types.Object]bool{} // what the function itself sets, it may read
			for _, body := range uses {
				p.assigned(body, own)
			}
			for _, body := range uses {
				p.reads(body, func(id *ast.Ident, v types.Object) {
					if p.flags[v] || set[v] && !own[v] {
						p.Reportf(id.Pos(), "%s is set by main, which does not run on nodes: there it has the value of its declaration; make it an argument of the function", id.Name)
					}
				})
			}
			return true
		})
	}
}

// isRegistration reports whether a function is one that registers functions for nodes.
func isRegistration(f *types.Func) bool {
	if f == nil || f.Pkg() == nil || f.Pkg().Path() != module {
		return false
	}
	switch f.Name() {
	case "Func", "GeneratorFunc", "ConsumerFunc", "PipeFunc":
		return true
	}
	return false
}

// callee returns the function or method that a call names, or nil.
func (p *program) callee(call *ast.CallExpr) *types.Func {
	f, _ := p.named(call.Fun).(*types.Func)
	if f != nil {
		return f.Origin()
	}
	return nil
}

// named returns what an expression names: a function, a method, a variable.
func (p *program) named(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return p.TypesInfo.Uses[e]
	case *ast.SelectorExpr:
		return p.TypesInfo.Uses[e.Sel]
	case *ast.IndexExpr: // with a type
		return p.named(e.X)
	case *ast.IndexListExpr:
		return p.named(e.X)
	}
	return nil
}

// reached returns the bodies of the functions of this package that run if a function does.
func (p *program) reached(f ast.Node) (bodies []ast.Node) {
	seen := map[types.Object]bool{}
	var visit func(n ast.Node)
	visit = func(n ast.Node) {
		bodies = append(bodies, n)
		ast.Inspect(n, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			obj := p.TypesInfo.Uses[id]
			if f, ok := obj.(*types.Func); ok {
				obj = f.Origin()
			}
			if body := p.bodies[obj]; body != nil && !seen[obj] {
				seen[obj] = true
				visit(body)
			}
			return true
		})
	}
	visit(f)
	return bodies
}

// setByMain returns the package-level variables that main sets behind its call of Init, itself or by functions that it calls.
func (p *program) setByMain() map[types.Object]bool {
	set := map[types.Object]bool{}
	body, ok := p.bodies[p.Pkg.Scope().Lookup("main")].(*ast.BlockStmt)
	if !ok {
		return set
	}
	after := body.Pos()
	for _, s := range body.List { // what stands before runs on nodes too
		if e, ok := s.(*ast.ExprStmt); ok {
			if call, ok := e.X.(*ast.CallExpr); ok {
				if f := p.callee(call); f != nil && f.Name() == "Init" && f.Pkg() != nil && f.Pkg().Path() == module {
					after = s.End()
				}
			}
		}
	}
	for _, s := range body.List {
		if s.Pos() < after {
			continue
		}
		for _, body := range p.reached(s) {
			p.assigned(body, set)
		}
	}
	return set
}

// assigned adds the package-level variables that a body assigns to, or gives the address of.
func (p *program) assigned(body ast.Node, to map[types.Object]bool) {
	add := func(e ast.Expr) {
		if v := p.variable(e); v != nil {
			to[v] = true
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					add(e)
				}
			}
		case *ast.IncDecStmt:
			add(n.X)
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				add(n.Key)
				add(n.Value)
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				add(n.X)
			}
		}
		return true
	})
}

// variable returns the package-level variable of this package that an expression is a part of, or nil.
func (p *program) variable(e ast.Expr) types.Object {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			v, ok := p.TypesInfo.Uses[x].(*types.Var)
			if !ok || v.Parent() != p.Pkg.Scope() {
				return nil
			}
			return v
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// reads calls f for each use of a package-level variable that is no assignment to the whole of it.
func (p *program) reads(body ast.Node, f func(*ast.Ident, types.Object)) {
	written := map[*ast.Ident]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.ASSIGN {
					written[id] = true
				}
			}
		case *ast.Ident:
			if v := p.variable(n); v != nil && !written[n] {
				f(n, v)
			}
		}
		return true
	})
}
