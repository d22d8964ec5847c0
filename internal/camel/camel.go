// Package camel writes values as JSON whose names are those of their Go fields in camel case: HourlyUSD is hourlyUSD. encoding/json reads
// them into the same types, as it reads what json.Marshal writes: it compares names without case.
package camel

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"unicode"
)

// Marshal returns v as JSON. A field's own tag, and a type's own MarshalJSON, count as for json.Marshal.
func Marshal(v any) (json.RawMessage, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	return json.Marshal(rename(tree, reflect.TypeOf(v)))
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// rename renames the fields in what json.Marshal has written of a type. Keys of maps stay: they are data.
func rename(tree any, t reflect.Type) any {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) || t.Implements(textMarshaler) {
		return tree
	}
	switch value := tree.(type) {
	case []any:
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
			for i := range value {
				value[i] = rename(value[i], t.Elem())
			}
		}
	case map[string]any:
		switch t.Kind() {
		case reflect.Map:
			for key := range value {
				value[key] = rename(value[key], t.Elem())
			}
		case reflect.Struct:
			named := make(map[string]any, len(value))
			for _, f := range reflect.VisibleFields(t) {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				to := name
				if name == "" {
					name, to = f.Name, Name(f.Name)
				}
				if in, ok := value[name]; ok {
					named[to] = rename(in, f.Type)
				}
			}
			return named
		}
	}
	return tree
}

// Name returns the name of a Go field in camel case.
func Name(field string) string {
	letters := []rune(field)
	capitals := 0
	for capitals < len(letters) && unicode.IsUpper(letters[capitals]) {
		capitals++
	}
	rest := letters[capitals:]
	plural := len(rest) > 0 && rest[0] == 's' && (len(rest) == 1 || unicode.IsUpper(rest[1])) // VCPUs
	if capitals > 1 && len(rest) > 0 && !plural {
		capitals-- // the last one begins a word: OSName
	}
	return strings.ToLower(string(letters[:capitals])) + string(letters[capitals:])
}
