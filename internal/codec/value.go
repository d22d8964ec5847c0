package codec

import (
	"fmt"
	"reflect"
	"sync"
	"time"
)

// checkValue returns an error for values that the type alone does not reveal: contents of
// interfaces, values that contain themselves, and times that the text form cannot represent.
func checkValue(v reflect.Value) error {
	if err := Check(v.Type()); err != nil {
		return err
	}
	if !hidesValues(v.Type()) {
		return nil
	}
	return walk(v, false, 0)
}

// walk visits a value. inAny is true inside an interface, where maps become map[string]any.
func walk(v reflect.Value, inAny bool, depth int) error {
	t := v.Type()
	if depth > MaxDepth {
		return fmt.Errorf("a %s is nested deeper than %d levels: does it contain itself?", t, MaxDepth)
	}
	if t == timeType {
		return checkTime(v)
	}
	if !inAny && !hidesValues(t) || hasMethods(t) {
		return nil
	}
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if err := Check(v.Elem().Type()); err != nil {
			return err
		}
		return walk(v.Elem(), true, depth+1)
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return walk(v.Elem(), inAny, depth+1)
	case reflect.Slice, reflect.Array:
		if isPlain(t.Elem()) {
			return nil
		}
		for i := range v.Len() {
			if err := walk(v.Index(i), inAny, depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		if inAny && t.Key().Kind() != reflect.String {
			return fmt.Errorf("a %s in an interface cannot be sent: it would arrive as map[string]any; use string keys, or a field of this type", t)
		}
		for it := v.MapRange(); it.Next(); {
			if err := walk(it.Key(), inAny, depth+1); err != nil {
				return err
			}
			if err := walk(it.Value(), inAny, depth+1); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if tagOf(f) == "-" || !f.IsExported() && !f.Anonymous {
				continue
			}
			if err := walk(v.Field(i), inAny, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkTime(v reflect.Value) error {
	if !v.CanInterface() {
		return nil // embedded and unexported: not sent
	}
	t := v.Interface().(time.Time)
	if _, offset := t.Zone(); offset%60 != 0 || t.Year() < 0 || t.Year() > 9999 {
		return fmt.Errorf("the time %v cannot be sent exactly: its year is not of four digits, or its zone is not of whole minutes; send it as UTC()", t)
	}
	return nil
}

// isPlain reports whether a type alone determines how its values are sent.
func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
		return false
	}
	return true
}

var hiding sync.Map // reflect.Type to bool

// hidesValues reports whether values of a type must be checked before they are encoded: whether it
// contains an interface, a time or itself.
func hidesValues(t reflect.Type) bool {
	if h, ok := hiding.Load(t); ok {
		return h.(bool)
	}
	h := reaches(t, map[reflect.Type]bool{}, func(t reflect.Type, again bool) bool {
		return again || t == timeType || t.Kind() == reflect.Interface
	})
	hiding.Store(t, h)
	return h
}

// reaches reports whether found is true for any type on the way down from t. seen holds the types
// met so far, and is true for those above t; again means that t is one of them.
func reaches(t reflect.Type, seen map[reflect.Type]bool, found func(t reflect.Type, again bool) bool) bool {
	above, met := seen[t]
	if found(t, above) {
		return true
	}
	if met || hasMethods(t) {
		return false
	}
	seen[t] = true
	defer func() { seen[t] = false }()
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return reaches(t.Elem(), seen, found)
	case reflect.Map:
		return reaches(t.Key(), seen, found) || reaches(t.Elem(), seen, found)
	case reflect.Struct:
		for f := range t.Fields() {
			if tagOf(f) != "-" && (f.IsExported() || f.Anonymous) && reaches(f.Type, seen, found) {
				return true
			}
		}
	}
	return false
}
