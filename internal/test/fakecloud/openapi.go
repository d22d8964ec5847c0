package fakecloud

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// OpenAPI reads the facts of an API from a file, which package apifacts describes. Its operations are named by their
// methods and paths, "GET /v2/pods/{id}", unless they have a name.
//
// Whole descriptions of OpenAPI 3.0 and 3.1 can be read too. Only the shapes of requests and answers count: servers,
// security schemes, operation IDs and examples are ignored. The keyword nullable is accepted in 3.1 as well. If two paths
// differ only in the names of their variables, the first by name applies.
func OpenAPI(t testing.TB, file string) Contract {
	t.Helper()
	return shared(t, file, func() (Contract, error) {
		doc, err := decodeJSON(read(t, file))
		if err != nil {
			return nil, err
		}
		return newOpenAPI(object(doc))
	})
}

type openAPI struct {
	doc       map[string]any
	templates templates
	has       map[string]*operation

	mu       sync.Mutex // guards compiling
	compiled map[direction]*schemas
}

// An operation is an operation of a description, with references resolved.
type operation struct {
	parameters []parameter
	body       map[string]any
	bodyAt     []string
	responses  map[string]any
	at         []string
}

func newOpenAPI(doc map[string]any) (*openAPI, error) {
	o := &openAPI{doc: doc, has: map[string]*operation{}, compiled: map[direction]*schemas{}}
	for _, d := range []direction{inRequest, inAnswer} {
		s, err := newSchemas(d.document(doc))
		if err != nil {
			return nil, err
		}
		o.compiled[d] = s
	}
	for path, item := range object(doc["paths"]) {
		for method, v := range object(item) {
			if !isMethod(method) {
				continue
			}
			op, err := o.operation(path, method, object(item), object(v))
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			t := newTemplate(strings.ToUpper(method), path)
			if name, ok := object(v)["name"].(string); ok {
				t.op = name
			}
			o.templates = append(o.templates, t)
			o.has[t.op] = op
		}
	}
	o.templates.sort()
	if len(o.has) == 0 {
		return nil, fmt.Errorf("no operation in it")
	}
	return o, nil
}

func isMethod(s string) bool {
	switch s {
	case "get", "put", "post", "delete", "patch", "head":
		return true
	}
	return false
}

// document returns the whole description with all its schemas made strict.
func (d direction) document(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			switch {
			case k == "schema":
				out[k] = d.strict(x, ofValue)
			case k == "schemas":
				all := map[string]any{}
				for name, s := range object(x) {
					all[name] = d.strict(s, named)
				}
				out[k] = all
			case k == "example" || k == "examples":
			default:
				out[k] = d.document(x)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = d.document(v[i])
		}
		return out
	}
	return v
}

// resolve follows references within the description, and returns the final value and its path.
func (o *openAPI) resolve(v any, at []string) (map[string]any, []string, error) {
	for range 10 {
		m := object(v)
		ref, ok := m["$ref"].(string)
		if !ok {
			return m, at, nil
		}
		rest, ok := strings.CutPrefix(ref, "#/")
		if !ok {
			return nil, nil, fmt.Errorf("reference %s leads out of the file", ref)
		}
		at, v = nil, o.doc
		for key := range strings.SplitSeq(rest, "/") {
			key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
			if v, ok = object(v)[key]; !ok {
				return nil, nil, fmt.Errorf("reference %s has no target", ref)
			}
			at = append(at, key)
		}
	}
	return nil, nil, fmt.Errorf("references go round in a circle")
}

// schema compiles the schema at a path of the description.
func (o *openAPI) schema(d direction, at ...string) (*jsonschema.Schema, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.compiled[d].at(at...)
}

func (o *openAPI) Operations() []string { return keys(o.has) }

func (o *openAPI) Find(c *Call) error {
	t, vars, err := o.templates.find(c.Method, c.Path)
	if err != nil {
		return err
	}
	c.Op, c.Vars = t.op, vars
	return nil
}
