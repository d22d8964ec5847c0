package fakecloud

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Encode also checks the answer: the operation must have its status, and its body must match the schema.
func (o *openAPI) Encode(c *Call, a Answer) (Answer, error) {
	a, err := a.encode()
	if err != nil || a.Undescribed {
		return a, err
	}
	op := o.has[c.Op]
	status := strconv.Itoa(a.Status)
	key := ""
	for _, k := range []string{status, status[:1] + "XX", status[:1] + "xx", "default"} {
		if _, ok := op.responses[k]; ok {
			key = k
			break
		}
	}
	if key == "" {
		return a, fmt.Errorf("status %s is not one of %s", status, strings.Join(keys(op.responses), ", "))
	}
	response, at, err := o.resolve(op.responses[key], append(slices.Clone(op.at), "responses", key))
	if err != nil {
		return a, err
	}
	content := object(response["content"])
	body := a.Body.([]byte)
	if len(content) == 0 {
		if len(body) > 0 {
			return a, fmt.Errorf("status %s has no body", status)
		}
		return a, nil
	}
	a = a.ofType(content)
	media, name, err := mediaType(response, a.Header)
	if err != nil {
		return a, err
	}
	schema := object(object(content[name])["schema"])
	if schema == nil {
		return a, nil
	}
	v := any(string(body))
	if isJSON(media) {
		if v, err = decodeJSON(body); err != nil {
			return a, fmt.Errorf("body: %w", err)
		}
	} else if !slices.Contains(o.types(schema, ""), "string") {
		return a, nil // a file, or a stream of events
	}
	compiled, err := o.schema(inAnswer, append(at, "content", name, "schema")...)
	if err != nil {
		return a, err
	}
	if err := validate(compiled, v); err != nil {
		return a, fmt.Errorf("body of status %s: %w", status, err)
	}
	return a, nil
}

// ofType sets the type of a JSON answer to the contract's JSON type, such as application/problem+json.
func (a Answer) ofType(content map[string]any) Answer {
	if _, ok := content["application/json"]; ok || a.Header.Get("Content-Type") != "application/json" {
		return a
	}
	for _, media := range keys(content) {
		if isJSON(media) {
			return a.With("Content-Type", media)
		}
	}
	return a
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
