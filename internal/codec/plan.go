package codec

import (
	"reflect"
	"strings"
	"sync"
)

// A plan encodes and decodes one type. Types without numbers in bulk go
// through the cbor package as a whole; a plan of their own have bulk slices
// and the structs, slices, maps and pointers that lead to one.
type plan interface {
	// size returns how many bytes of bulk a value adds to the head.
	size(v reflect.Value) int
	encode(e *encoder, v reflect.Value) error
	// decode takes one item off the front of the data, which is well-formed.
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
	for t, p := range made { // only now are all of them complete
		plans.Store(t, p)
	}
	return p
}

// makePlan adds the plan for t, and those for its parts, to made. A type that
// contains itself finds its own there.
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

// plainFields returns the name that each field is sent by, or "" where it is
// not sent. An embedded struct is sent like a field. It fails where sending
// takes more than that: fields promoted from an unexported type, names that clash.
func plainFields(t reflect.Type) (names []string, ok bool) {
	seen := map[string]bool{}
	for f := range t.Fields() {
		tag := tagOf(f)
		// Options say how to spell a value, which is not needed here: both
		// sides have the same type, and empty is told apart from nil.
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

// ordinary leaves a value to the cbor package.
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
