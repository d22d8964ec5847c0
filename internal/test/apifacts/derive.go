package apifacts

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// derived returns the facts of the calls in a cloud's file, taken again from the vendor's descriptions.
func (c cloud) derived(t testing.TB, has map[string]any) (map[string]any, error) {
	t.Helper()
	out := map[string]any{}
	var errs []error
	left := callsOf(has)
	for _, read := range c.from {
		from := read(t)
		listed := callsOf(from)
		for _, call := range c.onlyHere {
			if slices.Contains(listed, call) {
				errs = append(errs, fmt.Errorf("%s is only here, says clouds.go, but the vendor describes it", call))
			}
		}
		part, err := take(from, left)
		errs = append(errs, err, merge(out, part, false))
		left = slices.DeleteFunc(left, func(call string) bool { return slices.Contains(listed, call) })
	}
	for _, call := range left {
		if !slices.Contains(c.onlyHere, call) {
			errs = append(errs, fmt.Errorf("%s is in no file of the vendor's: correct it, or list it in clouds.go as only here", call))
		}
	}
	part, err := take(has, left)
	if len(left) > 0 {
		errs = append(errs, err, merge(out, part, true))
	}
	return out, errors.Join(errs...)
}

// merge adds the facts of one description to those of others. Both may have the same things, but must say the same about
// them, unless those of from yield.
func merge(into, from map[string]any, yield bool) error {
	depth := 3 // paths, path, method; components, schemas, name
	if from["shapes"] != nil {
		depth = 2
	}
	var errs []error
	var add func(into, from map[string]any, at string, depth int)
	add = func(into, from map[string]any, at string, depth int) {
		for k, v := range from {
			switch old := into[k]; {
			case old == nil:
				into[k] = v
			case depth > 1:
				add(object(old), object(v), at+"/"+k, depth-1)
			case text(old) != text(v) && !yield:
				errs = append(errs, fmt.Errorf("two of its descriptions disagree on %s/%s", at, k))
			}
		}
	}
	add(into, from, "", depth)
	return errors.Join(errs...)
}
