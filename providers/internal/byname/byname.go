// Package byname makes providers from their names and from settings, as configuration
// files have them. It has the providers whose packages link no vendor's client; its user
// adds the others.
package byname

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"

	"github.com/gputrain/gputrain"
)

// A Set is the providers of a package that makes them by their names.
type Set struct {
	// Package is the package's name, for hints in errors.
	Package string
	// Configs are the providers as their zero values have them: configured by the
	// environment's variables.
	Configs []gputrain.Provider
	// Elsewhere says, of a provider that the set does not have, where it is.
	Elsewhere map[string]string
}

// Names returns the names of all providers, in alphabetical order.
func (s Set) Names() []string {
	names := make([]string, len(s.Configs))
	for i, c := range s.Configs {
		names[i] = c.Name()
	}
	slices.Sort(names)
	return names
}

// New returns the provider of a name, with the settings in its Config.
func (s Set) New(name string, settings map[string]any, opts ...Option) (gputrain.Provider, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	i := slices.IndexFunc(s.Configs, func(c gputrain.Provider) bool { return c.Name() == name })
	if where := s.Elsewhere[name]; i < 0 && where != "" {
		return nil, fmt.Errorf("%w: provider %q is not in package %s: %s", gputrain.ErrInvalid, name, s.Package, where)
	}
	if i < 0 {
		return nil, fmt.Errorf("%w: there is no provider %q; there are %s", gputrain.ErrInvalid, name, strings.Join(s.Names(), ", "))
	}
	config := reflect.New(reflect.TypeOf(s.Configs[i]))
	fail := func(err error, hint string) error {
		return &gputrain.Error{Provider: name, Op: "configure", Kind: gputrain.ErrInvalid, Err: err, Hint: hint}
	}
	if err := set(config.Interface(), settings); err != nil {
		return nil, fail(err, "")
	}
	if !o.commands {
		var faults []error
		for _, f := range reflect.VisibleFields(config.Type().Elem()) {
			if why := CommandIn(name, f.Name, config.Elem().FieldByIndex(f.Index)); why != "" {
				faults = append(faults, errors.New(why))
			}
		}
		if len(faults) > 0 {
			return nil, fail(errors.Join(faults...), "if the settings are trusted to run programs here, give New "+s.Package+".AllowCommands()")
		}
	}
	return config.Elem().Interface().(gputrain.Provider), nil
}

// set fills in the fields of a Config.
func set(config any, settings map[string]any) error {
	fields := reflect.TypeOf(config).Elem()
	var faults []error
	seen := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		i := slices.IndexFunc(reflect.VisibleFields(fields), func(f reflect.StructField) bool { return same(key, f.Name) })
		if i < 0 {
			faults = append(faults, fmt.Errorf("there is no setting %q; there are %s", key, strings.Join(settable(fields), ", ")))
			continue
		}
		field := fields.Field(i)
		if other, twice := seen[field.Name]; twice {
			faults = append(faults, fmt.Errorf("%q and %q are the same setting", other, key))
		}
		seen[field.Name] = key
		if !isData(field.Type) {
			faults = append(faults, fmt.Errorf("%s is nothing that a file can hold: set Config.%s in a program", key, field.Name))
			continue
		}
		if err := decode(settings[key], config, field.Name); err != nil {
			faults = append(faults, fmt.Errorf("%s: it must be %s", key, describe(field.Type)))
		}
	}
	return errors.Join(faults...)
}

// decode sets one field. What the decoder says of a value that does not fit may show it,
// and it may be a secret.
func decode(value, config any, field string) error {
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result: config, ErrorUnused: true, MatchName: same,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(mapstructure.StringToTimeDurationHookFunc(), whole),
	})
	if err != nil {
		return err
	}
	return decoder.Decode(map[string]any{field: value})
}

// same is whether a key of a file names a field.
func same(key, field string) bool {
	return strings.EqualFold(strings.NewReplacer("_", "", "-", "").Replace(key), field)
}

// settable returns the names of the fields that a file can set.
func settable(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && isData(f.Type) {
			names = append(names, f.Name)
		}
	}
	return names
}

// isData is whether values of a type can be written down.
func isData(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int64, reflect.Float64:
		return true
	case reflect.Slice:
		return isData(t.Elem())
	case reflect.Map:
		return t.Key().Kind() == reflect.String && isData(t.Elem())
	case reflect.Struct:
		return len(settable(t)) == len(reflect.VisibleFields(t))
	}
	return false
}

// whole refuses a number that has a fraction, or is too large, where there is none: JSON has
// one kind of numbers.
func whole(_, to reflect.Type, value any) (any, error) {
	f, ok := value.(float64)
	if ok && (to.Kind() == reflect.Int || to.Kind() == reflect.Int64) && (f != math.Trunc(f) || math.Abs(f) >= 1<<63) {
		return nil, errors.New("it is not whole")
	}
	return value, nil
}

func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list; of each in it: " + describe(t.Elem())
	case reflect.Map, reflect.Struct:
		return "a table"
	case reflect.Int64:
		return `a duration, like "90s"`
	case reflect.Int:
		return "a whole number"
	}
	return "a number"
}
