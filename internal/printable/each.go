package printable

import (
	"reflect"
	"sync"
	"unicode/utf8"
)

const (
	// LongestName bounds a Name, and LongestMessage a Message, in bytes.
	LongestName    = 4 << 10
	LongestMessage = 256 << 10
)

// Name returns what can be shown of a text of one line that a node, a provider or a file has: its path, its state, its device.
func Name(s string) string { return cut(Line(cut(s, 2*LongestName)), LongestName) }

// Message is Name for a text of several lines: an error, a stack, a line of output.
func Message(s string) string { return cut(Text(cut(s, 2*LongestMessage)), LongestMessage) }

// cut returns the beginning of a text that is too long, with an ellipsis.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	most -= len("…")
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// Each returns v with f applied to all texts that it has: in the exported fields of its structs, in its slices, behind its pointers,
// and to the keys and values of its maps, not in interfaces. What v refers to is not changed: what differs is copied.
func Each[T any](v T, f func(string) string) T {
	changed, ok := each(reflect.ValueOf(&v).Elem(), f)
	if ok {
		return changed.Interface().(T)
	}
	return v
}

// each returns a changed copy of a value, and reports whether anything differs.
func each(v reflect.Value, f func(string) string) (reflect.Value, bool) {
	if v.IsZero() {
		return v, false
	}
	t, changed := v.Type(), false
	if t.Kind() != reflect.String && len(fieldsOf(t)) == 0 {
		return v, false
	}
	switch t.Kind() {
	case reflect.String:
		old := v.String()
		if s := f(old); s != old {
			v = reflect.New(t).Elem()
			v.SetString(s)
			return v, true
		}
	case reflect.Pointer:
		if v.IsNil() {
			return v, false
		}
		if to, ok := each(v.Elem(), f); ok {
			p := reflect.New(t.Elem())
			p.Elem().Set(to)
			return p, true
		}
	case reflect.Struct:
		old := v
		for _, i := range fieldsOf(t) {
			field, ok := each(old.Field(i), f)
			if !ok {
				continue
			}
			if !changed {
				v, changed = reflect.New(t).Elem(), true
				v.Set(old)
			}
			v.Field(i).Set(field)
		}
	case reflect.Slice:
		old := v
		for i := range old.Len() {
			element, ok := each(old.Index(i), f)
			if !ok {
				continue
			}
			if !changed {
				v, changed = reflect.MakeSlice(t, old.Len(), old.Len()), true
				reflect.Copy(v, old)
			}
			v.Index(i).Set(element)
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			_, newKey := each(i.Key(), f)
			_, newValue := each(i.Value(), f)
			changed = changed || newKey || newValue
		}
		if !changed {
			return v, false
		}
		old := v
		v = reflect.MakeMapWithSize(t, old.Len())
		for i := old.MapRange(); i.Next(); {
			key, _ := each(i.Key(), f)
			value, _ := each(i.Value(), f)
			v.SetMapIndex(key, value)
		}
	}
	return v, changed
}

// fields has, by types, what fieldsOf returns.
var fields sync.Map

// fieldsOf returns the fields of a struct that can have texts, and something if another type can.
func fieldsOf(t reflect.Type) []int {
	if known, ok := fields.Load(t); ok {
		return known.([]int)
	}
	all := findFields(t, map[reflect.Type]bool{})
	fields.Store(t, all)
	return all
}

// findFields is fieldsOf within types that are being looked at. Of those it is not known yet, and they may have texts.
func findFields(t reflect.Type, within map[reflect.Type]bool) (all []int) {
	if within[t] {
		return []int{0}
	}
	within[t] = true
	defer delete(within, t)
	switch t.Kind() {
	case reflect.String:
		return []int{0}
	case reflect.Pointer, reflect.Slice:
		return findFields(t.Elem(), within)
	case reflect.Map:
		return append(findFields(t.Key(), within), findFields(t.Elem(), within)...)
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() && len(findFields(t.Field(i).Type, within)) > 0 {
				all = append(all, i)
			}
		}
	}
	return all
}
