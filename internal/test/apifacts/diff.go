package apifacts

import (
	"fmt"
	"maps"
	"slices"
)

// diff returns the differences between two descriptions, each as the path of a fact, what it was and what it is.
func diff(old, new any, at string) []string {
	a, b := keyed(old), keyed(new)
	if a == nil || b == nil {
		if text(old) == text(new) {
			return nil
		}
		return []string{fmt.Sprintf("%s: %s -> %s", at, shown(old), shown(new))}
	}
	names := maps.Clone(a)
	maps.Copy(names, b)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, diff(a[name], b[name], at+"/"+name)...)
	}
	return all
}

// keyed returns an object, or a list as an object: parameters by their names, texts by themselves, others by position.
func keyed(v any) map[string]any {
	list, ok := v.([]any)
	if !ok {
		m, _ := v.(map[string]any)
		return m
	}
	m := map[string]any{}
	for i, x := range list {
		key := fmt.Sprint(i)
		if s, isText := x.(string); isText {
			key = s
		} else if name := object(x)["name"]; name != nil {
			key = fmt.Sprint(object(x)["in"], " ", name)
		} else if ref := object(x)["$ref"]; ref != nil {
			key = fmt.Sprint(ref)
		}
		m[key] = x
	}
	return m
}

func shown(v any) string {
	if v == nil {
		return "nothing"
	}
	return text(v)
}
