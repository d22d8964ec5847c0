package fakecloud

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Discovery reads an API description in Google's discovery format from a file of the contracts, and converts it to
// OpenAPI. Its operations are named by their IDs: "compute.instances.insert". A request must not contain fields that
// only the service sets. A field of its resource is required in the methods that the field's annotation lists.
// [GoogleError] returns failures.
func Discovery(t testing.TB, file string) Contract {
	t.Helper()
	return shared(t, file, func() (Contract, error) { return newDiscovery(document(t, file)) })
}

func newDiscovery(from map[string]any) (Contract, error) {
	d := discovery{ids: map[string]string{}, ops: map[string]string{}}
	paths, schemas := map[string]any{}, map[string]any{}
	for name, s := range object(from["schemas"]) {
		schemas[name] = googleSchema(s)
	}
	d.collect(from, object(from["schemas"]), paths)
	base, _ := from["servicePath"].(string)
	api, err := newOpenAPI(map[string]any{
		"servers":    []any{map[string]any{"url": "/" + base}},
		"paths":      paths,
		"components": map[string]any{"schemas": schemas},
	})
	d.openAPI = api
	return d, err
}

// discovery is an OpenAPI description whose operations are named by Google's IDs.
type discovery struct {
	*openAPI
	ids map[string]string // operation ID by method and path
	ops map[string]string // the reverse
}

func (d discovery) Has(id string) bool { return d.ops[id] != "" }

func (d discovery) Find(c *Call) error {
	err := d.openAPI.Find(c)
	c.Op = d.ids[c.Op]
	return err
}

func (d discovery) Check(c *Call) error {
	as := *c
	as.Op = d.ops[c.Op]
	err := d.openAPI.Check(&as)
	c.Input = as.Input
	return err
}

func (d discovery) Encode(c *Call, a Answer) (Answer, error) {
	return d.openAPI.Encode(&Call{Op: d.ops[c.Op]}, a)
}

// collect adds the methods of a resource and of its subresources to paths.
func (d discovery) collect(resource, schemas, paths map[string]any) {
	for _, v := range object(resource["methods"]) {
		m := object(v)
		id, path, method := m["id"].(string), "/"+m["path"].(string), m["httpMethod"].(string)
		d.ids[method+" "+path], d.ops[id] = id, method+" "+path
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		object(paths[path])[strings.ToLower(method)] = googleMethod(m, schemas)
	}
	for _, r := range object(resource["resources"]) {
		d.collect(object(r), schemas, paths)
	}
}

// everyMethod lists the query parameters of all Google APIs. The description omits them.
var everyMethod = []string{"alt", "$alt", "fields", "key", "prettyPrint", "quotaUser", "userIp", "$.xgafv"}

func googleMethod(m, schemas map[string]any) map[string]any {
	var parameters []any
	for name, v := range object(m["parameters"]) {
		p := object(v)
		schema := googleSchema(p)
		if p["repeated"] == true {
			schema = map[string]any{"type": "array", "items": schema}
		}
		parameters = append(parameters, map[string]any{"name": name, "in": p["location"], "required": p["required"], "schema": schema})
	}
	for _, name := range everyMethod {
		parameters = append(parameters, map[string]any{"name": name, "in": "query"})
	}
	failure := map[string]any{"type": "object", "required": []any{"error"}, "properties": map[string]any{"error": map[string]any{"type": "object"}}}
	op := map[string]any{
		"parameters": parameters,
		"responses":  map[string]any{"200": jsonBody(googleSchema(m["response"])), "default": jsonBody(failure)},
	}
	if ref, ok := object(m["request"])["$ref"].(string); ok {
		required := []any{}
		for name, f := range object(object(schemas[ref])["properties"]) {
			if in, _ := object(object(f)["annotations"])["required"].([]any); slices.Contains(in, m["id"]) {
				required = append(required, name)
			}
		}
		op["requestBody"] = jsonBody(map[string]any{"allOf": []any{googleSchema(m["request"]), map[string]any{"required": required}}})
		object(op["requestBody"])["required"] = true
	}
	return op
}

func jsonBody(schema any) map[string]any {
	return map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": schema}}}
}

// googleFormats are the patterns of strings that represent other types.
var googleFormats = map[any]string{"int64": "^-?[0-9]+$", "uint64": "^[0-9]+$", "byte": "^[A-Za-z0-9+/_-]*=*$"}

// googleSchema converts a schema to OpenAPI.
func googleSchema(v any) any {
	out := map[string]any{}
	for k, v := range object(v) {
		switch k {
		case "properties":
			fields := map[string]any{}
			for name, f := range object(v) {
				fields[name] = googleSchema(f)
			}
			v = fields
		case "items", "additionalProperties":
			v = googleSchema(v)
		case "$ref":
			v = "#/components/schemas/" + v.(string)
		case "pattern":
			v = "^(?:" + v.(string) + ")$"
		case "minimum", "maximum":
			v = json.Number(v.(string))
		case "type":
			if v == "any" {
				continue
			}
		case "enum", "readOnly":
		default:
			continue
		}
		out[k] = v
	}
	if pattern := googleFormats[object(v)["format"]]; pattern != "" {
		out["pattern"] = pattern
	}
	return out
}

// GoogleError returns the answer of Google's APIs to a call that fails. The reason is a word such as notFound or
// rateLimitExceeded.
func GoogleError(status int, reason, message string) Answer {
	return Reply(status, map[string]any{"error": map[string]any{
		"code": status, "message": message,
		"errors": []any{map[string]any{"domain": "global", "reason": reason, "message": message}},
	}})
}
