package apifacts

import (
	"fmt"
	"strings"
)

// An Amendment corrects a known mistake in a description.
type Amendment func(doc map[string]any)

// AllowFields adds fields that the service has to a schema that lacks them. The schema is given by its path:
// "/components/schemas/Pod".
func AllowFields(schema string, fields ...string) Amendment {
	return func(doc map[string]any) {
		properties := object(at(doc, schema)["properties"])
		if len(properties) == 0 {
			panic("apifacts: AllowFields: no properties at " + schema)
		}
		for _, field := range fields {
			if _, known := properties[field]; known {
				panic("apifacts: AllowFields: " + schema + " has " + field + " already")
			}
			properties[field] = map[string]any{}
		}
	}
}

// renameKey renames a key of an object that is given by its path.
func renameKey(path, from, to string) Amendment {
	return func(doc map[string]any) {
		m := at(doc, path)
		if m[from] == nil || m[to] != nil {
			panic(fmt.Sprintf("apifacts: renameKey: %s lacks %s, or has %s", path, from, to))
		}
		m[to] = m[from]
		delete(m, from)
	}
}

// TrailingSlash adds a slash to the end of every path of a description, for services that require it.
func TrailingSlash(doc map[string]any) {
	rename(doc, func(path string) string { return strings.TrimSuffix(path, "/") + "/" })
}

func rename(doc map[string]any, to func(path string) string) {
	paths := map[string]any{}
	for path, item := range object(doc["paths"]) {
		paths[to(path)] = item
	}
	doc["paths"] = paths
}

// at returns the object at a JSON pointer, or an empty one.
func at(doc map[string]any, pointer string) map[string]any {
	for _, key := range keysOf(pointer) {
		doc = object(doc[key])
	}
	return doc
}

// keysOf returns the keys of a JSON pointer: "/paths/~1things".
func keysOf(pointer string) []string {
	keys := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := range keys {
		keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(keys[i])
	}
	return keys
}
