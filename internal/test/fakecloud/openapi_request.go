package fakecloud

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A parameter is a parameter of an operation outside its body.
type parameter struct {
	name, in string
	required bool
	explode  bool     // an array's items are sent as separate values
	asJSON   bool     // its text is JSON
	types    []string // types to which its text may be converted
	items    []string // types of an array's items
	at       []string // path of its schema
}

// operation reads the parameters, body and answers of an operation.
func (o *openAPI) operation(path, method string, item, v map[string]any) (*operation, error) {
	op := &operation{at: []string{"paths", path, method}}
	for _, from := range []struct {
		in map[string]any
		at []string
	}{{v, op.at}, {item, op.at[:2]}} { // the operation's own parameters override its path's
		list, _ := from.in["parameters"].([]any)
		for i := range list {
			p, err := o.parameter(list[i], append(slices.Clone(from.at), "parameters", strconv.Itoa(i)))
			if err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(op.parameters, func(q parameter) bool { return q.name == p.name && q.in == p.in }) {
				op.parameters = append(op.parameters, p)
			}
		}
	}
	var err error
	op.body, op.bodyAt, err = o.resolve(v["requestBody"], append(slices.Clone(op.at), "requestBody"))
	op.responses = object(v["responses"])
	return op, err
}

func (o *openAPI) parameter(v any, at []string) (parameter, error) {
	m, at, err := o.resolve(v, at)
	if err != nil {
		return parameter{}, err
	}
	p := parameter{name: fmt.Sprint(m["name"]), in: fmt.Sprint(m["in"]), required: m["required"] == true}
	p.explode = p.in == "query"
	if explode, ok := m["explode"].(bool); ok {
		p.explode = explode
	}
	schema := m["schema"]
	if content := object(object(m["content"])["application/json"]); content != nil {
		p.asJSON, p.at = true, append(slices.Clone(at), "content", "application/json", "schema")
	} else if schema != nil {
		p.at = append(slices.Clone(at), "schema")
	}
	p.types = o.types(schema, "")
	p.items = o.types(schema, "items")
	return p, nil
}

// types returns the types that a schema allows or, if below is set, those of its schema below that key.
func (o *openAPI) types(v any, below string) []string {
	m, _, err := o.resolve(v, nil)
	if err != nil {
		return nil
	}
	var all []string
	if below != "" && m[below] != nil {
		all = o.types(m[below], "")
	} else if below == "" {
		switch t := m["type"].(type) {
		case string:
			all = []string{t}
		case []any:
			for _, name := range t {
				all = append(all, fmt.Sprint(name))
			}
		}
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := m[keyword].([]any)
		for _, s := range list {
			all = append(all, o.types(s, below)...)
		}
	}
	return all
}

func (o *openAPI) Check(c *Call) error {
	op := o.has[c.Op]
	var errs []error
	known := map[string]bool{}
	for _, p := range op.parameters {
		var values []string
		switch p.in {
		case "path":
			values = []string{c.Vars[p.name]}
		case "query":
			known[p.name] = true
			values = c.Query[p.name]
		case "header":
			values = c.Header.Values(p.name)
		default:
			continue
		}
		if values == nil {
			if p.required {
				errs = append(errs, fmt.Errorf("%s parameter %s is missing", p.in, p.name))
			}
			continue
		}
		if err := o.checkParameter(p, values); err != nil {
			errs = append(errs, fmt.Errorf("%s parameter %s: %w", p.in, p.name, err))
		}
	}
	for name := range c.Query {
		if !known[name] {
			errs = append(errs, fmt.Errorf("unknown query parameter %s", name))
		}
	}
	if err := o.checkBody(op, c); err != nil {
		errs = append(errs, fmt.Errorf("body: %w", err))
	}
	return errors.Join(errs...)
}

func (o *openAPI) checkParameter(p parameter, values []string) error {
	if p.at == nil {
		return nil
	}
	var v any
	var err error
	switch {
	case p.asJSON:
		v, err = decodeJSON([]byte(values[0]))
	case slices.Contains(p.types, "array"):
		if !p.explode {
			values = strings.Split(values[0], ",")
		}
		list := make([]any, len(values))
		for i, s := range values {
			list[i] = reading(s, p.items)
		}
		v = list
	case len(values) > 1:
		err = fmt.Errorf("it occurs %d times", len(values))
	default:
		v = reading(values[0], p.types)
	}
	if err != nil {
		return err
	}
	schema, err := o.schema(inRequest, p.at...)
	if err != nil {
		return err
	}
	return validate(schema, v)
}

// reading converts text to one of the types, or returns the text if none matches.
func reading(s string, types []string) any {
	if v, err := decodeJSON([]byte(s)); err == nil && !slices.Contains(types, "string") {
		return v // unchanged, so that the schema can report the mistake
	}
	return s
}

// checkBody checks a body. An operation without a body also accepts {}: some services require it with every POST.
func (o *openAPI) checkBody(op *operation, c *Call) error {
	if op.body == nil {
		if text := strings.TrimSpace(string(c.Body)); text != "" && text != "{}" {
			return errors.New("the operation has no body")
		}
		return nil
	}
	if len(c.Body) == 0 {
		if op.body["required"] == true {
			return errors.New("it is missing")
		}
		return nil
	}
	media, content, err := mediaType(op.body, c.Header)
	if err != nil {
		return err
	}
	switch {
	case isJSON(media):
		c.Input, err = decodeJSON(c.Body)
	case media == "application/x-www-form-urlencoded":
		c.Input, err = o.form(c.Body, object(object(op.body["content"])[content])["schema"])
	default:
		return nil // text or a file
	}
	if err != nil || object(object(op.body["content"])[content])["schema"] == nil {
		return err
	}
	schema, err := o.schema(inRequest, append(slices.Clone(op.bodyAt), "content", content, "schema")...)
	if err != nil {
		return err
	}
	return validate(schema, c.Input)
}

// form converts a form's fields to the types in its schema.
func (o *openAPI) form(body []byte, schema any) (any, error) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	m, _, err := o.resolve(schema, nil)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for name, v := range values {
		out[name] = reading(v[0], o.types(object(m["properties"])[name], ""))
	}
	return out, nil
}

// mediaType returns the type of a body, and the matching key among the types that a description allows.
func mediaType(body map[string]any, h http.Header) (media, key string, err error) {
	media, _, err = mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return "", "", fmt.Errorf("Content-Type %q: %w", h.Get("Content-Type"), err)
	}
	content := object(body["content"])
	major, _, _ := strings.Cut(media, "/")
	for _, key := range []string{media, media + "; charset=utf-8", major + "/*", "*/*"} {
		if _, ok := content[key]; ok {
			return media, key, nil
		}
	}
	return "", "", fmt.Errorf("Content-Type %s is not one of %s", media, strings.Join(keys(content), ", "))
}

func isJSON(contentType string) bool {
	media, _, _ := mime.ParseMediaType(contentType)
	return media == "application/json" || strings.HasSuffix(media, "+json")
}
