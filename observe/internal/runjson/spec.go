package runjson

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/camel"
)

// SpecOf returns a spec by the names of its fields in camel case, with the names of its secrets as "secretNames", and without their values. It
// fails if a number in it is not finite.
func SpecOf(s gputrain.Spec) (json.RawMessage, error) {
	whole, err := camel.Marshal(struct {
		gputrain.Spec
		SecretNames []string `json:"secretNames,omitempty"`
	}{s, slices.Sorted(maps.Keys(s.Secrets))})
	if err != nil {
		return nil, err
	}
	return Printable(whole)
}

// acceleratorsOf returns what a spec asks for in each node: "A100:8", "L4 or T4", "cpu".
func acceleratorsOf(s gputrain.Spec) string {
	if len(s.AnyOf) == 0 {
		return line(s.Accelerator.String())
	}
	names := make([]string, len(s.AnyOf))
	for i, a := range s.AnyOf {
		names[i] = line(a.String())
	}
	return strings.Join(names, " or ")
}

// Printable removes control characters from the texts of a JSON value, and from the names in it. It fails if it is no JSON value.
func Printable(value []byte) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(printableValue(v))
	return bytes.TrimRight(out.Bytes(), "\n"), err
}

func printableValue(v any) any {
	switch v := v.(type) {
	case string:
		return text(v)
	case []any:
		for i := range v {
			v[i] = printableValue(v[i])
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			value := v[name]
			delete(v, name)
			v[text(name)] = printableValue(value)
		}
	}
	return v
}
