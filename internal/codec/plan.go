package codec

import (
	"reflect"
	"strings"
	"sync"
)

// A plan encodes and decodes one type. The cbor package handles types without bulk slices. Bulk
// slices, and the structs, slices, maps and pointers that lead to one, have plans of their own.
type plan interface {
	// size returns the number of bytes that a value's bulk slices add to the head.
	size(v reflect.Value) int
	encode(e *encoder, v reflect.Value) error
	// decode removes one item from the front of the data, which is well-formed.
	decode(d *decoder, v reflect.Value) error
}

var (
	plans   sync.Map // reflect.Type to plan
	compile sync.Mutex
)

func planOf(t reflect.Type) plan {
	if p, ok := plans.Load(t); ok {
		return p.(plan)
	}
	compile.Lock()
	defer compile.Unlock()
	made := map[reflect.Type]plan{}
	p := makePlan(t, made)
	for t, p := range made { // all of them are complete only now
		plans.Store(t, p)
	}
	return p
}

// makePlan adds the plan for t, and those for its parts, to made. A type that contains itself finds
// its own plan there.
func makePlan(t reflect.Type, made map[reflect.Type]plan) plan {
	if p, ok := plans.Load(t); ok {
		return p.(plan)
	}
	if p, ok := made[t]; ok {
		return p
	}
	if b, ok := bulkOf(t); ok {
		made[t] = b
		return b
	}
	if hasMethods(t) || !reaches(t, map[reflect.Type]bool{}, isBulk) {
		made[t] = ordinary{}
		return ordinary{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		p := &pointerPlan{}
		made[t] = p
		p.elem = makePlan(t.Elem(), made)
		return p
	case reflect.Slice:
		p := &slicePlan{}
		made[t] = p
		p.elem = makePlan(t.Elem(), made)
		return p
	case reflect.Array:
		p := &arrayPlan{}
		made[t] = p
		p.elem = makePlan(t.Elem(), made)
		return p
	case reflect.Map:
		p := &mapPlan{}
		made[t] = p
		p.key, p.elem = makePlan(t.Key(), made), makePlan(t.Elem(), made)
		return p
	case reflect.Struct:
		names, ok := plainFields(t)
		if !ok {
			break
		}
		p := &structPlan{byName: map[string]int{}}
		made[t] = p
		for i, name := range names {
			if name != "" {
				p.byName[name] = len(p.fields)
				p.fields = append(p.fields, fieldPlan{name, i, makePlan(t.Field(i).Type, made)})
			}
		}
		return p
	}
	made[t] = ordinary{}
	return ordinary{}
}

func isBulk(t reflect.Type, _ bool) bool {
	_, ok := bulkOf(t)
	return ok
}

// plainFields returns the name by which each field is sent, or "" if it is not sent. An embedded
// struct is sent like a field. ok is false if fields need more than that: if they are promoted from
// an unexported type, or names clash.
func plainFields(t reflect.Type) (names []string, ok bool) {
	seen := map[string]bool{}
	for f := range t.Fields() {
		tag := tagOf(f)
		// Options for the spelling of a value do not matter here: both ends have the same type, and
		// empty and nil are distinct.
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case f.Name == "_" || tag == "-":
			names = append(names, "")
			continue
		case f.Anonymous && !f.IsExported() && structOf(f.Type) != nil:
			return nil, false
		case !f.IsExported():
			names = append(names, "")
			continue
		case name == "":
			name = f.Name
		}
		if seen[name] {
			return nil, false
		}
		seen[name] = true
		names = append(names, name)
	}
	return names, true
}

// ordinary uses the cbor package.
type ordinary struct{}

func (ordinary) size(reflect.Value) int { return 0 }

func (ordinary) encode(e *encoder, v reflect.Value) error {
	return toCBOR.MarshalToBuffer(v.Interface(), &e.Buffer)
}

func (ordinary) decode(d *decoder, v reflect.Value) error {
	rest, err := fromCBOR.UnmarshalFirst(d.data, v.Addr().Interface())
	d.data = rest
	return err
}
