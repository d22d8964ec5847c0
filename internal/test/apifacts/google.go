package apifacts

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Google reads a description of the contracts in Google's discovery format, as OpenAPI.
func Google(t testing.TB, file string) map[string]any {
	t.Helper()
	return fromGoogle(document(t, file))
}

// fromGoogle converts a description in Google's discovery format to OpenAPI. Its operations have their IDs as names:
// "compute.instances.insert". A request must not contain fields that only the service sets. A field of its resource is
// required in the methods that the field's annotation lists.
func fromGoogle(from map[string]any) map[string]any {
	paths, schemas := map[string]any{}, map[string]any{}
	for name, s := range object(from["schemas"]) {
		schemas[name] = googleSchema(s)
	}
	base, _ := from["servicePath"].(string)
	googleMethods(from, "/"+base, object(from["schemas"]), paths)
	return map[string]any{"paths": paths, "components": map[string]any{"schemas": schemas}}
}

// googleMethods adds the methods of a resource and of its subresources to paths.
func googleMethods(resource map[string]any, base string, schemas, paths map[string]any) {
	for _, v := range object(resource["methods"]) {
		m := object(v)
		path := base + m["path"].(string)
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		object(paths[path])[strings.ToLower(m["httpMethod"].(string))] = googleMethod(m, schemas)
	}
	for _, r := range object(resource["resources"]) {
		googleMethods(object(r), base, schemas, paths)
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
		"name":       m["id"],
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
