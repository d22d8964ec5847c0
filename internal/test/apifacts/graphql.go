package apifacts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/formatter"
	"github.com/vektah/gqlparser/v2/parser"
)

// fromGraphQL returns the part of a GraphQL schema that has those fields of queries and mutations which has has, and
// the types that they refer to, without descriptions.
func fromGraphQL(schema, has string) (string, error) {
	all, err := parser.ParseSchema(&ast.Source{Input: schema})
	if err != nil {
		return "", err
	}
	calls, err := parser.ParseSchema(&ast.Source{Input: has})
	if err != nil {
		return "", err
	}
	part := &ast.SchemaDocument{}
	for _, root := range []string{"Query", "Mutation"} {
		want, def := calls.Definitions.ForName(root), all.Definitions.ForName(root)
		if want == nil {
			continue
		}
		for _, call := range want.Fields {
			if def == nil || def.Fields.ForName(call.Name) == nil {
				return "", fmt.Errorf("the vendor's schema has no %s.%s", root, call.Name)
			}
		}
		def.Fields = slices.DeleteFunc(def.Fields, func(f *ast.FieldDefinition) bool { return want.Fields.ForName(f.Name) == nil })
		follow(all, part, root)
	}
	slices.SortFunc(part.Definitions, func(a, b *ast.Definition) int { return cmp.Compare(a.Name, b.Name) })
	var b strings.Builder
	formatter.NewFormatter(&b, formatter.WithoutDescription()).FormatSchemaDocument(part)
	return b.String(), nil
}

// follow adds a type to a part of a schema, and all types that it refers to.
func follow(all, part *ast.SchemaDocument, name string) {
	def := all.Definitions.ForName(name)
	if def == nil || part.Definitions.ForName(name) != nil { // GraphQL's own type, or added
		return
	}
	part.Definitions = append(part.Definitions, def)
	slices.SortFunc(def.Fields, func(a, b *ast.FieldDefinition) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(def.EnumValues, func(a, b *ast.EnumValueDefinition) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range def.Fields {
		follow(all, part, f.Type.Name())
		for _, a := range f.Arguments {
			follow(all, part, a.Type.Name())
		}
	}
	for _, other := range slices.Concat(def.Interfaces, def.Types) {
		follow(all, part, other)
	}
}

// graphQLTree returns a schema as a tree, so that it can be compared.
func graphQLTree(schema string) (map[string]any, error) {
	doc, err := parser.ParseSchema(&ast.Source{Input: schema})
	if err != nil {
		return nil, err
	}
	tree := map[string]any{}
	for _, def := range doc.Definitions {
		fields := map[string]any{}
		for _, f := range def.Fields {
			fields[f.Name] = f.Type.String()
			for _, a := range f.Arguments {
				fields[f.Name+"("+a.Name+")"] = a.Type.String()
			}
		}
		for _, v := range def.EnumValues {
			fields[v.Name] = "value"
		}
		fields["kind"] = string(def.Kind)
		tree[def.Name] = fields
	}
	return tree, nil
}
