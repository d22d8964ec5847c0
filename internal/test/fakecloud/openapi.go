package fakecloud

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// An Amendment corrects a known defect of a description before it is read.
type Amendment func(doc map[string]any)

// OpenAPI reads an OpenAPI description, 3.0 or 3.1, from a file of the contracts. Its operations are named as in the
// description: "GET /v2/pods/{id}".
//
// Only the shapes of requests and answers are read: security schemes, operation IDs and examples are ignored. The
// keyword nullable is accepted in 3.1 as well. If two paths differ only in the names of their variables, the first by
// name applies. So every file can be read. An [Amendment] corrects mistakes in a file.
func OpenAPI(t testing.TB, file string, amendments ...Amendment) Contract {
	t.Helper()
	if len(amendments) == 0 {
		return shared(t, file, func() (Contract, error) { return newOpenAPI(document(t, file)) })
	}
	doc := document(t, file)
	for _, amend := range amendments {
		amend(doc)
	}
	o, err := newOpenAPI(doc)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return o
}

// AllowFields adds fields that the service has to a schema that lacks them. The schema is given by its path:
// "/components/schemas/Pod".
func AllowFields(schema string, fields ...string) Amendment {
	return func(doc map[string]any) {
		at, _, err := (&openAPI{doc: doc}).resolve(map[string]any{"$ref": "#" + schema}, nil)
		properties := object(at["properties"])
		if err != nil || properties == nil {
			panic(fmt.Sprintf("fakecloud: AllowFields: no properties at %s: %v", schema, err))
		}
		for _, field := range fields {
			if _, known := properties[field]; known {
				panic("fakecloud: AllowFields: " + schema + " has " + field + " already")
			}
			properties[field] = map[string]any{}
		}
	}
}

// TrailingSlash adds a slash to the end of every path of a description, for services that require it.
func TrailingSlash(doc map[string]any) {
	paths := map[string]any{}
	for path, item := range object(doc["paths"]) {
		paths[strings.TrimSuffix(path, "/")+"/"] = item
	}
	doc["paths"] = paths
}

type openAPI struct {
	doc       map[string]any
	base      string // path of the first server
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
	if servers, _ := doc["servers"].([]any); len(servers) > 0 {
		u, err := url.Parse(fmt.Sprint(object(servers[0])["url"]))
		if err != nil {
			return nil, fmt.Errorf("servers: %w", err)
		}
		o.base = strings.TrimSuffix(u.Path, "/")
	}
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
			o.templates = append(o.templates, t)
			o.has[t.method+" "+t.path] = op
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

func (o *openAPI) Has(op string) bool { return o.has[op] != nil }

func (o *openAPI) Find(c *Call) error {
	t, vars, err := o.templates.find(o.base, c.Method, c.Path)
	if err != nil {
		return err
	}
	c.Op, c.Vars = t.method+" "+t.path, vars
	return nil
}
