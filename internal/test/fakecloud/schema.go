package fakecloud

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas compiles the schemas of one document, each when it is first used.
type schemas struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

// resource is the URL of the document, for its own references.
const resource = "contract.json"

func newSchemas(doc any) (*schemas, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	return &schemas{compiler: c}, c.AddResource(resource, doc)
}

// at compiles the schema at a JSON pointer.
func (s *schemas) at(pointer ...string) (*jsonschema.Schema, error) {
	var loc strings.Builder
	loc.WriteString(resource + "#")
	for _, p := range pointer {
		loc.WriteString("/" + escape(p))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compiler.Compile(loc.String())
}

// escape escapes a key of a JSON pointer for the fragment of a URL.
var escape = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", " ", "%20", "{", "%7B", "}", "%7D", "+", "%2B").Replace

func decodeJSON(b []byte) (any, error) { return jsonschema.UnmarshalJSON(bytes.NewReader(b)) }

// A direction is the direction of a value: a request has no readOnly properties, an answer no writeOnly ones.
type direction string

const (
	inRequest direction = "readOnly"
	inAnswer  direction = "writeOnly"
)

// A role is the relation of a schema to its value.
type role int

const (
	named   role = iota // a target of $ref; the schema that refers to it is closed instead
	ofValue             // describes one whole value: closed
	part                // one of several schemas for a value, in allOf and similar
)

// dropped are OpenAPI keywords that do not restrict a value.
var dropped = []string{"nullable", "example", "examples", "default", "title", "description",
	"discriminator", "xml", "externalDocs", "deprecated", "readOnly", "writeOnly", "$comment"}

// composed are the keywords with which a schema gets fields from other schemas.
var composed = []string{"properties", "$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"}

// strict converts a schema of OpenAPI 3.0 or 3.1 to JSON Schema 2020-12 that refuses unknown fields in every value with
// described fields, unless the description explicitly allows others.
func (d direction) strict(schema any, at role) any {
	s, ok := schema.(map[string]any)
	if !ok {
		return schema // true or false
	}
	out := map[string]any{}
	for k, v := range s {
		if slices.Contains(dropped, k) || strings.HasPrefix(k, "x-") {
			continue
		}
		switch k {
		case "properties", "patternProperties":
			v = d.properties(v)
		case "items", "additionalProperties", "unevaluatedProperties", "contains":
			v = d.strict(v, ofValue)
		case "allOf", "anyOf", "oneOf":
			v = d.parts(s, k, at)
		case "not", "if", "then", "else":
			v = d.strict(v, part)
		case "required":
			v = d.required(s)
		case "exclusiveMinimum", "exclusiveMaximum": // 3.0: a flag beside minimum
			if flag, ok := v.(bool); ok {
				bound := strings.ToLower(strings.TrimPrefix(k, "exclusive"))
				if v = s[bound]; !flag || v == nil {
					continue
				}
			}
		case "pattern":
			// Go's regexp has no look-ahead: such a pattern is not checked.
			if _, err := regexp.Compile(fmt.Sprint(v)); err != nil {
				continue
			}
		}
		out[k] = v
	}
	if fields, ok := out["properties"].(map[string]any); ok && len(fields) == 0 && len(object(s["properties"])) == 0 {
		delete(out, "properties") // no fields are described; this does not mean that there are none
	}
	describes := slices.ContainsFunc(composed, func(k string) bool { return out[k] != nil })
	_, says := s["additionalProperties"]
	switch {
	case out["unevaluatedProperties"] != nil || says:
	case describes && at == ofValue:
		out["unevaluatedProperties"] = false
	case !describes && out["required"] == nil && (typed(out, "object") || len(out) == 0 && at != part):
		out["additionalProperties"] = true // any object; so it stays valid if a reference closes it
	}
	if s["nullable"] == true {
		return nullable(out)
	}
	return out
}

// properties returns the properties of a schema, without those that the direction excludes.
func (d direction) properties(v any) any {
	out := map[string]any{}
	for name, p := range object(v) {
		if object(p)[string(d)] != true {
			out[name] = d.strict(p, ofValue)
		}
	}
	return out
}

// required returns the required properties of this direction.
func (d direction) required(s map[string]any) any {
	names, ok := s["required"].([]any)
	if !ok {
		return []any{} // not a list: a parameter's "required: true"
	}
	return slices.DeleteFunc(slices.Clone(names), func(name any) bool {
		return object(object(s["properties"])[fmt.Sprint(name)])[string(d)] == true
	})
}

// parts returns the schemas of allOf, anyOf or oneOf. If only a oneOf describes a value, each of its schemas is closed:
// otherwise two schemas that differ in optional fields would both match.
func (d direction) parts(s map[string]any, keyword string, at role) any {
	list, ok := s[keyword].([]any)
	if !ok {
		return s[keyword]
	}
	to := part
	if keyword == "oneOf" && at == ofValue && s["properties"] == nil && s["allOf"] == nil && s["$ref"] == nil {
		to = ofValue
	}
	out := make([]any, len(list))
	for i, p := range list {
		out[i] = d.strict(p, to)
	}
	return out
}

// nullable makes a schema allow null. OpenAPI 3.0 states that beside the type.
func nullable(s map[string]any) any {
	t, ok := s["type"].(string)
	if !ok || s["allOf"] != nil || s["anyOf"] != nil || s["oneOf"] != nil || s["$ref"] != nil {
		return map[string]any{"anyOf": []any{s, map[string]any{"type": "null"}}}
	}
	s["type"] = []any{t, "null"}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, nil) {
		s["enum"] = append(slices.Clone(enum), nil)
	}
	return s
}

func typed(s map[string]any, name string) bool {
	switch t := s["type"].(type) {
	case string:
		return t == name
	case []any:
		return slices.Contains(t, any(name))
	}
	return false
}

// object returns v as an object, or an empty one.
func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}
