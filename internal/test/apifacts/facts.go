package apifacts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// kept says, for every kind of object in a description, which keys are facts, and of what kind their values are: ""
// is a plain value, []x a list and {}x a map of x.
var kept = map[string]map[string]string{
	"path": {
		"get": "operation", "put": "operation", "post": "operation", "delete": "operation", "patch": "operation", "head": "operation",
		"parameters": "[]parameter",
	},
	"operation": {"name": "", "parameters": "[]parameter", "requestBody": "body", "responses": "{}response"},
	"parameter": {"$ref": "ref parameter", "name": "", "in": "", "required": "", "explode": "", "schema": "schema", "content": "{}media"},
	"body":      {"$ref": "ref body", "required": "", "content": "{}media"},
	"response":  {"$ref": "ref response", "content": "{}media"},
	"media":     {"schema": "schema"},
	"schema": {
		"$ref": "ref schema", "type": "", "format": "", "enum": "[]", "const": "", "pattern": "", "nullable": "", "readOnly": "", "writeOnly": "",
		"minimum": "", "maximum": "", "exclusiveMinimum": "", "exclusiveMaximum": "", "multipleOf": "", "minLength": "", "maxLength": "",
		"minItems": "", "maxItems": "", "uniqueItems": "", "minProperties": "", "maxProperties": "", "required": "[]", "dependentRequired": "{}[]",
		"properties": "{}schema", "patternProperties": "{}schema", "items": "schema", "contains": "schema",
		"additionalProperties": "schema", "unevaluatedProperties": "schema",
		"allOf": "[]schema", "anyOf": "[]schema", "oneOf": "[]schema", "not": "schema", "if": "schema", "then": "schema", "else": "schema",
	},

	// EC2's models
	"metadata": {"apiVersion": "", "xmlNamespace": ""},
	"action":   {"input": "member", "output": "member"},
	"member":   {"shape": "ref shape", "locationName": "", "queryName": ""},
	"shape": {
		"type": "", "members": "{}member", "member": "member", "required": "[]", "enum": "[]", "min": "", "max": "", "pattern": "",
	},
}

// dropped are keys that restrict no value, beside those that begin with x-. A key that is in neither list is an error, so
// that no fact is lost because nobody knew its key.
var dropped = []string{
	"title", "description", "summary", "example", "examples", "default", "deprecated", "externalDocs", "discriminator", "xml",
	"operationId", "tags", "security", "servers", "callbacks", "headers", "links", "style", "allowReserved", "$schema", "$comment",
	"http", "name", "sensitive", "idempotencyToken", "locationName", // of an action or a shape as a whole
	"auth", "endpointPrefix", "protocol", "protocols", "serviceAbbreviation", "serviceFullName", "serviceId", "signatureVersion", "uid",
}

// flags say nothing when they are off.
var flags = []string{"required", "nullable", "readOnly", "writeOnly", "uniqueItems", "exclusiveMinimum", "exclusiveMaximum"}

// facts are what is taken from one description.
type facts struct {
	from, out map[string]any
	errs      []error
}

// take returns the facts of the calls that a description has, and of all that they refer to. A description without
// calls is one schema.
func take(from map[string]any, calls []string) (map[string]any, error) {
	f := &facts{from: from, out: map[string]any{}}
	actions, isEC2 := from["operations"]
	switch {
	case isEC2:
		f.put(f.of("metadata", from["metadata"], "/metadata"), "metadata")
		for name, a := range object(actions) {
			if slices.Contains(calls, name) {
				f.put(f.of("action", a, "/operations/"+name), "operations", name)
			}
		}
	case from["paths"] != nil:
		for path, item := range object(from["paths"]) {
			for method, op := range object(item) {
				if !slices.Contains(calls, call(method, path)) {
					continue
				}
				f.put(f.of("operation", op, "/paths"+path+"/"+method), "paths", path, method)
				if all := object(item)["parameters"]; all != nil {
					f.put(f.of("[]parameter", all, "/paths"+path+"/parameters"), "paths", path, "parameters")
				}
			}
		}
	default:
		f.out = object(f.of("schema", from, ""))
	}
	return f.out, errors.Join(f.errs...)
}

func call(method, path string) string { return strings.ToUpper(method) + " " + path }

// callsOf returns the calls of a description: "GET /v1/things", or EC2's actions.
func callsOf(doc map[string]any) []string {
	calls := slices.Collect(maps.Keys(object(doc["operations"])))
	for path, item := range object(doc["paths"]) {
		for method := range object(item) {
			if kept["path"][method] == "operation" {
				calls = append(calls, call(method, path))
			}
		}
	}
	slices.Sort(calls)
	return calls
}

func (f *facts) complain(format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf(format, args...))
}

// of returns the facts in a value of a kind.
func (f *facts) of(kind string, v any, at string) any {
	if each, isMap := strings.CutPrefix(kind, "{}"); isMap {
		out := map[string]any{}
		for k, x := range object(v) {
			out[k] = f.of(each, x, at+"/"+k)
		}
		return out
	}
	if each, isList := strings.CutPrefix(kind, "[]"); isList {
		list, ok := v.([]any)
		if !ok {
			f.complain("%s is no list", at)
			return nil
		}
		out := make([]any, len(list))
		for i, x := range list {
			out[i] = f.of(each, x, fmt.Sprintf("%s/%d", at, i))
		}
		if each == "" || each == "parameter" { // their order means nothing
			slices.SortStableFunc(out, func(a, b any) int { return cmp.Compare(text(a), text(b)) })
		}
		return out
	}
	if target, isRef := strings.CutPrefix(kind, "ref "); isRef {
		f.follow(target, fmt.Sprint(v), at)
		return v
	}
	m, isObject := v.(map[string]any)
	if kind == "" || !isObject {
		return v // such as false for additionalProperties
	}
	out := map[string]any{}
	for k, x := range m {
		switch below, isFact := kept[kind][k]; {
		case isFact && x == false && slices.Contains(flags, k):
		case isFact:
			out[k] = f.of(below, x, at+"/"+k)
		case slices.Contains(dropped, k), strings.HasPrefix(k, "x-"):
		default:
			f.complain("%s/%s: put this key into kept or dropped in facts.go", at, k)
		}
	}
	return out
}

// follow takes the target of a reference, once.
func (f *facts) follow(kind, ref, at string) {
	path := []string{"shapes", ref}
	if kind != "shape" {
		pointer, local := strings.CutPrefix(ref, "#/")
		if path = keysOf(pointer); !local || len(path) != 3 || path[0] != "components" {
			f.complain("%s refers to %s, which is none of the components", at, ref)
			return
		}
	}
	target, taken := any(f.from), any(f.out)
	for _, key := range path {
		target, taken = object(target)[key], object(taken)[key]
	}
	if target == nil {
		f.complain("%s refers to %s, which is missing", at, ref)
		return
	}
	if taken == nil {
		f.put(map[string]any{}, path...) // ends circles
		f.put(f.of(kind, target, "/"+strings.Join(path, "/")), path...)
	}
}

func (f *facts) put(v any, path ...string) {
	m := f.out
	for _, key := range path[:len(path)-1] {
		if m[key] == nil {
			m[key] = map[string]any{}
		}
		m = object(m[key])
	}
	m[path[len(path)-1]] = v
}

// text returns a value as JSON on one line.
func text(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
