package codec

import (
	"encoding"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// A TypeError says which part of a type cannot be sent, and why.
type TypeError struct {
	// Path leads to the part from the outer type: "settings.Hooks[]".
	Path string
	// Type is the part's type.
	Type reflect.Type
	// Reason says why, and what to do instead.
	Reason string
}

// Error names the type, the path and the reason.
func (e *TypeError) Error() string {
	return fmt.Sprintf("%s: a %s cannot be sent: %s", e.Path, e.Type, e.Reason)
}

// Check returns a [*TypeError] if values of a type cannot be sent. Types may contain themselves.
// The content of interfaces is only known to [Marshal], which checks it.
func Check(t reflect.Type) error {
	if err, ok := checked.Load(t); ok {
		e, _ := err.(error)
		return e
	}
	err := (&checker{seen: map[reflect.Type]bool{}}).check(t, t.String())
	checked.Store(t, err)
	return err
}

var checked sync.Map // reflect.Type to error or nil

type checker struct{ seen map[reflect.Type]bool }

func (c *checker) check(t reflect.Type, path string) error {
	if c.seen[t] {
		return nil
	}
	c.seen[t] = true
	refuse := func(reason string) error { return &TypeError{Path: path, Type: t, Reason: reason} }

	switch own, oneWay := marshals(t); {
	case oneWay != "":
		return refuse(oneWay)
	case own:
		return nil
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Uintptr:
		return refuse("it means nothing in another process; leave the field out with the tag `cbor:\"-\"`")
	case reflect.Complex64, reflect.Complex128:
		return refuse("CBOR has no complex numbers; send the two parts")
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return refuse("the receiver cannot know which type to make; use a concrete type, or any")
		}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		suffix := "[]"
		if t.Kind() == reflect.Pointer {
			suffix = ""
		}
		return c.check(t.Elem(), path+suffix)
	case reflect.Map:
		if t.Key().Kind() == reflect.Pointer {
			return refuse("its keys are pointers, which differ in another process; use values as keys")
		}
		if err := c.check(t.Key(), path+"[key]"); err != nil {
			return err
		}
		return c.check(t.Elem(), path+"[]")
	case reflect.Struct:
		return c.checkFields(t, path)
	}
	return nil
}

func (c *checker) checkFields(t reflect.Type, path string) error {
	sent := 0
	for f := range t.Fields() {
		at := path + "." + f.Name
		if tagOf(f) == "-" {
			sent++ // left out on purpose
			continue
		}
		if f.Anonymous && !f.IsExported() && f.Type.Kind() == reflect.Pointer {
			return &TypeError{Path: at, Type: f.Type, Reason: "an embedded pointer to an unexported type cannot be set; embed the value"}
		}
		if f.Anonymous && structOf(f.Type) != nil && !hasMethods(f.Type) {
			// Its fields are promoted. A type without exported fields, such as an embedded
			// sync.Mutex, adds nothing.
			if err := c.checkFields(structOf(f.Type), at); err != nil {
				if e, ok := err.(*TypeError); !ok || e.Path != at || e.Reason != noFields {
					return err
				}
				continue
			}
			sent++
			continue
		}
		if !f.IsExported() {
			continue
		}
		sent++
		if err := c.check(f.Type, at); err != nil {
			return err
		}
	}
	if sent == 0 && t.NumField() > 0 && strings.Trim(fieldNames(t), "_") != "" {
		return &TypeError{Path: path, Type: t, Reason: noFields}
	}
	return nil
}

const noFields = "none of its fields are exported, so nothing of it would arrive; export them or give it MarshalBinary and UnmarshalBinary"

// fieldNames returns the concatenated names: only "_" if a type's sole purpose is to carry options
// for the encoder.
func fieldNames(t reflect.Type) string {
	var b strings.Builder
	for f := range t.Fields() {
		b.WriteString(f.Name)
	}
	return b.String()
}

func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct {
		return t
	}
	return nil
}

// tagOf returns the tag that the encoder uses.
func tagOf(f reflect.StructField) string {
	if tag := f.Tag.Get("cbor"); tag != "" {
		return tag
	}
	return f.Tag.Get("json")
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	bigIntType = reflect.TypeFor[big.Int]()

	// These are the methods, in the order in which the encoder looks for them.
	methods = []struct {
		there, back         reflect.Type
		thereName, backName string
	}{
		{reflect.TypeFor[cbor.Marshaler](), reflect.TypeFor[cbor.Unmarshaler](), "MarshalCBOR", "UnmarshalCBOR"},
		{reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler](), "MarshalBinary", "UnmarshalBinary"},
		{reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](), "MarshalText", "UnmarshalText"},
	}
)

func hasMethods(t reflect.Type) bool {
	own, _ := marshals(t)
	return own
}

// marshals reports whether a type has its own encoding, and what is wrong if it works in one
// direction only.
func marshals(t reflect.Type) (own bool, oneWay string) {
	if t == timeType || t == bigIntType {
		return true, ""
	}
	if t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer {
		return false, "" // the type that it points to has the methods
	}
	p := reflect.PointerTo(t)
	for _, m := range methods {
		there, back := p.Implements(m.there), p.Implements(m.back)
		switch {
		case there && back:
			return true, ""
		case there:
			return false, fmt.Sprintf("it has %s but not %s", m.thereName, m.backName)
		case back:
			return false, fmt.Sprintf("it has %s but not %s", m.backName, m.thereName)
		}
	}
	return false, ""
}
