package fakecloud

import (
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// validate returns a schema's complaints about a value, on one line.
func validate(s *jsonschema.Schema, v any) error {
	err := s.Validate(v)
	invalid := (*jsonschema.ValidationError)(nil)
	if !errors.As(err, &invalid) {
		return err
	}
	var certain, all []string
	for _, leaf := range leaves(invalid) {
		at := "/" + strings.Join(leaf.InstanceLocation, "/")
		text, sure := at+": "+leaf.ErrorKind.LocalizedString(english), true
		switch k := leaf.ErrorKind.(type) {
		case *kind.FalseSchema:
			text, sure = at+": unknown field", !describes(s, leaf.InstanceLocation)
		case *kind.AdditionalProperties:
			text = strings.TrimSuffix(at, "/") + "/" + strings.Join(k.Properties, ",") + ": unknown field"
		}
		if all = append(all, text); sure {
			certain = append(certain, text)
		}
	}
	// If something else is wrong with an object, no schema matches it, and its known fields are reported as unknown
	// too. Those complaints are dropped.
	if len(certain) > 0 {
		all = certain
	}
	slices.Sort(all)
	return errors.New(strings.Join(slices.Compact(all), "; "))
}

var english = message.NewPrinter(language.English)

// leaves returns the innermost complaints, which no other complaint causes.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var all []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// describes reports whether any part of a schema describes the value at a path.
func describes(s *jsonschema.Schema, at []string) bool {
	if s == nil || s.Bool != nil {
		return false
	}
	if len(at) == 0 {
		return true
	}
	below := []*jsonschema.Schema{s.Properties[at[0]], s.Items2020}
	if more, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		below = append(below, more)
	}
	if slices.ContainsFunc(below, func(b *jsonschema.Schema) bool { return describes(b, at[1:]) }) {
		return true
	}
	parts := slices.Concat([]*jsonschema.Schema{s.Ref, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf)
	return slices.ContainsFunc(parts, func(p *jsonschema.Schema) bool { return describes(p, at) })
}
