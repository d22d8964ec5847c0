package fakecloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Discovery reads an API description in Google's discovery format from a file
// of the contracts. Its operations are called by their IDs:
// "compute.instances.insert". Unknown fields are refused, and in a request
// those that only the service sets; a field is required in the methods that its
// annotation names.
func Discovery(t testing.TB, file string) Contract {
	t.Helper()
	d := &discovery{has: map[string]*method{}, byPath: map[string]string{}, compiled: map[string]*schemas{}}
	if err := json.Unmarshal(read(t, file), d); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	d.collect(d.Resources)
	d.templates.sort()
	if len(d.has) == 0 {
		t.Fatalf("%s: no method in it", file)
	}
	return d
}

type discovery struct {
	ServicePath string               `json:"servicePath"`
	Resources   map[string]resources `json:"resources"`
	Schemas     map[string]any       `json:"schemas"`

	templates templates
	byPath    map[string]string // method and path to ID
	has       map[string]*method

	mu       sync.Mutex
	compiled map[string]*schemas // by method and direction: what is required differs
}

type resources struct {
	Methods   map[string]*method   `json:"methods"`
	Resources map[string]resources `json:"resources"`
}

type method struct {
	ID         string `json:"id"`
	HTTPMethod string `json:"httpMethod"`
	Path       string `json:"path"`
	Parameters map[string]any
	Request    *schemaRef
	Response   *schemaRef
}

type schemaRef struct {
	Ref string `json:"$ref"`
}

// everyMethod are the query parameters that Google has in all of its APIs, and
// this description leaves out.
var everyMethod = []string{"alt", "$alt", "fields", "key", "prettyPrint", "quotaUser", "userIp", "$.xgafv"}

func (d *discovery) collect(rs map[string]resources) {
	for _, r := range rs {
		for _, m := range r.Methods {
			d.has[m.ID] = m
			d.templates = append(d.templates, newTemplate(m.HTTPMethod, m.Path))
			d.byPath[m.HTTPMethod+" "+m.Path] = m.ID
		}
		d.collect(r.Resources)
	}
}

func (d *discovery) Has(op string) bool { return d.has[op] != nil }

func (d *discovery) Find(c *Call) error {
	t, vars, err := d.templates.find("/"+d.ServicePath, c.Method, c.Path)
	if err != nil {
		return err
	}
	c.Op, c.Vars = d.byPath[t.method+" "+t.path], vars
	return nil
}

func (d *discovery) Check(c *Call) error {
	m := d.has[c.Op]
	var errs []error
	for name, v := range m.Parameters {
		p := object(v)
		values := c.Query[name]
		if p["location"] == "path" {
			values = []string{c.Vars[name]}
		}
		switch {
		case len(values) == 0 && p["required"] == true:
			errs = append(errs, fmt.Errorf("parameter %s is missing", name))
		case len(values) > 1 && p["repeated"] != true:
			errs = append(errs, fmt.Errorf("parameter %s is there %d times", name, len(values)))
		}
		for _, s := range values {
			if err := d.checkParameter(p, s); err != nil {
				errs = append(errs, fmt.Errorf("parameter %s: %w", name, err))
			}
		}
	}
	for name := range c.Query {
		if p := object(m.Parameters[name]); p["location"] != "query" && !slices.Contains(everyMethod, name) {
			errs = append(errs, fmt.Errorf("unknown query parameter %s", name))
		}
	}
	if err := d.checkBody(m, c); err != nil {
		errs = append(errs, fmt.Errorf("body: %w", err))
	}
	return errors.Join(errs...)
}

func (d *discovery) checkParameter(p map[string]any, s string) error {
	compiled, err := newSchemas(inRequest.google("", map[string]any{"schema": p}))
	if err != nil {
		return err
	}
	schema, err := compiled.at("schema")
	if err != nil {
		return err
	}
	return validate(schema, reading(s, []string{fmt.Sprint(p["type"])}))
}

func (d *discovery) checkBody(m *method, c *Call) (err error) {
	switch {
	case m.Request == nil && len(c.Body) > 0:
		return errors.New("there is none to be")
	case m.Request == nil:
		return nil
	case !isJSON(c.Header.Get("Content-Type")):
		return fmt.Errorf("the Content-Type is %q, not application/json", c.Header.Get("Content-Type"))
	}
	if c.Input, err = decodeJSON(c.Body); err != nil {
		return err
	}
	return d.validate(inRequest, m.ID, m.Request.Ref, c.Input)
}

func (d *discovery) validate(way direction, id, name string, v any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.compiled[id+string(way)]
	if all == nil {
		var err error
		if all, err = newSchemas(map[string]any{"schemas": way.google(id, d.Schemas)}); err != nil {
			return err
		}
		d.compiled[id+string(way)] = all
	}
	schema, err := all.at("schemas", name)
	if err != nil {
		return err
	}
	return validate(schema, v)
}

// Encode checks the answer too. A failure is what [GoogleError] makes.
func (d *discovery) Encode(c *Call, a Answer) (Answer, error) {
	a, err := a.encode()
	if err != nil || a.Undescribed {
		return a, err
	}
	v, err := decodeJSON(a.Body.([]byte))
	if err != nil {
		return a, fmt.Errorf("body: %w", err)
	}
	if m := d.has[c.Op]; a.Status < 300 && m.Response != nil {
		err = d.validate(inAnswer, m.ID, m.Response.Ref, v)
	} else if object(v)["error"] == nil {
		err = errors.New("a failure has an error in it: see GoogleError")
	}
	if err != nil {
		return a, fmt.Errorf("body of status %d: %w", a.Status, err)
	}
	return a, nil
}

// GoogleError is how Google's APIs answer a call that fails. The reason is such
// as notFound or rateLimitExceeded.
func GoogleError(status int, reason, message string) Answer {
	return Reply(status, map[string]any{"error": map[string]any{
		"code": status, "message": message,
		"errors": []any{map[string]any{"domain": "global", "reason": reason, "message": message}},
	}})
}

// google returns schemas by name as JSON Schema has them, for one method.
func (way direction) google(id string, all map[string]any) map[string]any {
	out := map[string]any{}
	for name, s := range all {
		out[name] = way.googleSchema(id, object(s))
	}
	return out
}

func (way direction) googleSchema(id string, s map[string]any) map[string]any {
	if ref, ok := s["$ref"].(string); ok {
		return map[string]any{"$ref": "#/schemas/" + ref}
	}
	out := map[string]any{}
	for _, k := range []string{"type", "enum"} {
		if s[k] != nil {
			out[k] = s[k]
		}
	}
	if p, ok := s["pattern"].(string); ok {
		out["pattern"] = "^(?:" + p + ")$"
	}
	if out["type"] == "any" {
		delete(out, "type")
	}
	switch s["format"] {
	case "int64":
		out["pattern"] = "^-?[0-9]+$"
	case "uint64":
		out["pattern"] = "^[0-9]+$"
	case "byte":
		out["pattern"] = "^[A-Za-z0-9+/_-]*=*$"
	case "uint32":
		out["minimum"] = 0
	}
	if out["type"] == "integer" || out["type"] == "number" {
		for _, bound := range []string{"minimum", "maximum"} {
			if text, ok := s[bound].(string); ok {
				out[bound] = json.Number(text)
			}
		}
	}
	if items := object(s["items"]); items != nil {
		out["items"] = way.googleSchema(id, items)
	}
	if fields, ok := s["properties"].(map[string]any); ok {
		way.googleFields(id, fields, out)
	}
	if more := object(s["additionalProperties"]); more != nil {
		out["additionalProperties"] = way.googleSchema(id, more)
	}
	return out
}

// googleFields closes out to the fields that go this way.
func (way direction) googleFields(id string, fields, out map[string]any) {
	properties, required := map[string]any{}, []any{}
	for name, v := range fields {
		f := object(v)
		if f["readOnly"] == true && way == inRequest {
			continue
		}
		properties[name] = way.googleSchema(id, f)
		methods, _ := object(f["annotations"])["required"].([]any)
		if way == inRequest && slices.ContainsFunc(methods, func(m any) bool { return strings.EqualFold(fmt.Sprint(m), id) }) {
			required = append(required, name)
		}
	}
	out["properties"], out["required"], out["additionalProperties"] = properties, required, false
}
