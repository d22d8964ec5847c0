package fakecloud

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas compiles the schemas of one document, each when it is first wanted.
type schemas struct {
	compiler *jsonschema.Compiler
}

// resource is the address of the document for its own references.
const resource = "contract.json"

func newSchemas(doc any) (*schemas, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	return &schemas{compiler: c}, c.AddResource(resource, doc)
}

// at returns the schema at a JSON pointer.
func (s *schemas) at(pointer ...string) (*jsonschema.Schema, error) {
	var loc strings.Builder
	loc.WriteString(resource + "#")
	for _, p := range pointer {
		loc.WriteString("/" + escape(p))
	}
	return s.compiler.Compile(loc.String())
}

// escape writes a key as a part of a JSON pointer in a URL's fragment.
var escape = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", " ", "%20", "{", "%7B", "}", "%7D", "+", "%2B").Replace

func decodeJSON(b []byte) (any, error) { return jsonschema.UnmarshalJSON(bytes.NewReader(b)) }

// A direction says which way a value goes: a request has no readOnly
// properties, an answer no writeOnly ones.
type direction string

const (
	inRequest direction = "readOnly"
	inAnswer  direction = "writeOnly"
)

// A place is where a schema stands.
type place int

const (
	named   place = iota // to be referred to: whoever refers to it closes it
	ofValue              // describes one whole value: closed
	part                 // one of several for a value, in allOf and its like
)

// dropped are keywords of OpenAPI that say nothing of what a value may be.
var dropped = []string{"nullable", "example", "examples", "default", "title", "description",
	"discriminator", "xml", "externalDocs", "deprecated", "readOnly", "writeOnly", "$comment"}

// composed are the keywords by which a schema refers to others for its fields.
var composed = []string{"properties", "$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"}

// strict returns a schema of OpenAPI 3.0 or 3.1 as one of JSON Schema 2020-12
// that refuses unknown fields: of every value that has any fields described,
// unless the description allows others in so many words.
func (d direction) strict(schema any, at place) any {
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
			// Go's regexp has no look-ahead: such a pattern is not held against a value.
			if _, err := regexp.Compile(fmt.Sprint(v)); err != nil {
				continue
			}
		}
		out[k] = v
	}
	if fields, ok := out["properties"].(map[string]any); ok && len(fields) == 0 && len(object(s["properties"])) == 0 {
		delete(out, "properties") // no fields described, not described to have no fields
	}
	describes := slices.ContainsFunc(composed, func(k string) bool { return out[k] != nil })
	_, says := s["additionalProperties"]
	switch {
	case out["unevaluatedProperties"] != nil || says:
	case describes && at == ofValue:
		out["unevaluatedProperties"] = false
	case !describes && out["required"] == nil && (typed(out, "object") || len(out) == 0 && at != part):
		out["additionalProperties"] = true // any object; so it also holds where a reference closes it
	}
	if s["nullable"] == true {
		return nullable(out)
	}
	return out
}

// properties are what has fields of its own; those of the other direction are
// not there.
func (d direction) properties(v any) any {
	out := map[string]any{}
	for name, p := range object(v) {
		if object(p)[string(d)] != true {
			out[name] = d.strict(p, ofValue)
		}
	}
	return out
}

// required is what must be there of the properties of this direction.
func (d direction) required(s map[string]any) any {
	names, ok := s["required"].([]any)
	if !ok {
		return []any{} // a parameter's "required: true", where it does not belong
	}
	return slices.DeleteFunc(slices.Clone(names), func(name any) bool {
		return object(object(s["properties"])[fmt.Sprint(name)])[string(d)] == true
	})
}

// parts are the schemas of allOf and its like. Where nothing but a oneOf
// describes a value, each of its schemas is closed: else two that differ in
// what is optional would both fit.
func (d direction) parts(s map[string]any, keyword string, at place) any {
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

// nullable lets null be a value too, which 3.0 says beside the type.
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

// object returns v as an object, empty if it is none.
func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}
