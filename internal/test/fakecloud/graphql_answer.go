package fakecloud

import (
	"encoding/json"
	"fmt"

	"github.com/vektah/gqlparser/v2/ast"
)

// A projection selects the fields that a query requests from a value.
type projection struct {
	schema *ast.Schema
	errs   []error
}

func (p *projection) complain(at, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s: "+format, append([]any{at}, args...)...))
}

func (p *projection) value(v any, t *ast.Type, want ast.SelectionSet, at string) any {
	if v == nil {
		if t.NonNull {
			p.complain(at, "null, but the schema has %s", t)
		}
		return nil
	}
	if t.Elem != nil {
		list, ok := v.([]any)
		if !ok {
			p.complain(at, "%v is not a list", v)
		}
		out := make([]any, len(list))
		for i := range list {
			out[i] = p.value(list[i], t.Elem, want, fmt.Sprintf("%s[%d]", at, i))
		}
		return out
	}
	def := p.schema.Types[t.NamedType]
	if def.Kind != ast.Object {
		p.leaf(v, def, at)
		return v
	}
	m, ok := v.(map[string]any)
	if !ok {
		p.complain(at, "%v is not an object", v)
	}
	for _, name := range keys(m) {
		if def.Fields.ForName(name) == nil {
			p.complain(at+"."+name, "unknown field")
		}
	}
	out := map[string]any{}
	p.fields(m, def, want, out, at)
	return out
}

func (p *projection) fields(m map[string]any, def *ast.Definition, want ast.SelectionSet, out map[string]any, at string) {
	for _, s := range want {
		switch s := s.(type) {
		case *ast.Field:
			if s.Name == "__typename" {
				out[s.Alias] = def.Name
				continue
			}
			out[s.Alias] = p.value(m[s.Name], s.Definition.Type, s.SelectionSet, at+"."+s.Name)
		case *ast.FragmentSpread:
			p.fields(m, def, s.Definition.SelectionSet, out, at)
		case *ast.InlineFragment:
			p.fields(m, def, s.SelectionSet, out, at)
		}
	}
}

// leaf checks a scalar or an enumeration's value. Scalars that the schema itself defines are not checked.
func (p *projection) leaf(v any, def *ast.Definition, at string) {
	ok := true
	switch def.Name {
	case "Int":
		n, number := v.(json.Number)
		_, err := n.Int64()
		ok = number && err == nil
	case "Float":
		_, ok = v.(json.Number)
	case "Boolean":
		_, ok = v.(bool)
	case "String", "ID":
		_, ok = v.(string)
	}
	if def.Kind == ast.Enum {
		name, isText := v.(string)
		ok = isText && def.EnumValues.ForName(name) != nil
	}
	if !ok {
		p.complain(at, "%v is not of type %s", v, def.Name)
	}
}
