// Package texts fills every text of a value, and finds every text in one, so that a test of texts forgets no field.
package texts

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// deepest bounds values whose type has itself in it.
const deepest = 12

// Fill gives each text that *v can have in exported fields the same content, with an element in each list and map. The test fails for an
// interface, which can have any text, unless its field's name is among the known ones.
func Fill(t testing.TB, v any, text string, known ...string) {
	t.Helper()
	fill(t, reflect.ValueOf(v).Elem(), "", text, known, deepest)
}

func fill(t testing.TB, v reflect.Value, name, text string, known []string, depth int) {
	if depth--; depth == 0 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), name, text, known, depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), name, text, known, depth)
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), name, text, known, depth)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, name, text, known, depth)
		fill(t, value, name, text, known, depth)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(t, v.Field(i), v.Type().Field(i).Name, text, known, depth)
			}
		}
	case reflect.Interface:
		if !slices.Contains(known, name) {
			t.Errorf("the field %s is an interface, whose texts nothing looks at", name)
		}
	}
}

// Each calls f with each text of a value, also of errors, and with the names of the fields on the way to it.
func Each(v any, f func(path, text string)) { each(reflect.ValueOf(v), "", f, deepest) }

func each(v reflect.Value, path string, f func(path, text string), depth int) {
	if depth--; depth == 0 {
		return
	}
	if v.IsValid() && v.CanInterface() {
		if err, ok := v.Interface().(error); ok && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && !v.IsNil() {
			f(path, err.Error())
			return
		}
	}
	switch v.Kind() {
	case reflect.String:
		f(path, v.String())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			each(v.Elem(), path, f, depth)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			each(v.Index(i), path, f, depth)
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			each(i.Key(), path+" key", f, depth)
			each(i.Value(), path, f, depth)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			each(v.Field(i), path+"."+v.Type().Field(i).Name, f, depth)
		}
	}
}
