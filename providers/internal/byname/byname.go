// Package byname makes providers from their names and settings, as in configuration files. It
// has the providers whose packages link no vendor's client; packages that use it add the
// others.
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

	"github.com/gputrain/gputrain/providers/driver"
)

// A Set is the providers that a package makes by name.
type Set struct {
	// Package is the package's name, for hints in errors.
	Package string
	// Configs are the providers' zero values, which the environment's variables configure.
	Configs []driver.Provider
	// Elsewhere names, by provider, the package of a provider outside the set.
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
func (s Set) New(name string, settings map[string]any, opts ...Option) (driver.Provider, error) {
	return s.make("New", name, settings, opts)
}

// make does the work of New, for a function of the package, which is in a hint.
func (s Set) make(function, name string, settings map[string]any, opts []Option) (driver.Provider, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	i := slices.IndexFunc(s.Configs, func(c driver.Provider) bool { return c.Name() == name })
	if where := s.Elsewhere[name]; i < 0 && where != "" {
		return nil, fmt.Errorf("%w: provider %q is not in package %s: %s", driver.ErrInvalid, name, s.Package, where)
	}
	if i < 0 {
		return nil, fmt.Errorf("%w: there is no provider %q; there are %s", driver.ErrInvalid, name, strings.Join(s.Names(), ", "))
	}
	config := reflect.New(reflect.TypeOf(s.Configs[i]))
	fail := func(err error, hint string) error {
		return &driver.Error{Provider: name, Op: "configure", Kind: driver.ErrInvalid, Err: err, Hint: hint}
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
			return nil, fail(errors.Join(faults...), "if the settings are trusted to run programs here, give "+function+" "+s.Package+".AllowCommands()")
		}
	}
	return config.Elem().Interface().(driver.Provider), nil
}

// set sets the fields of a Config.
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
			faults = append(faults, fmt.Errorf("a file cannot hold %s: set Config.%s in a program", key, field.Name))
			continue
		}
		if err := decode(settings[key], config, field.Name); err != nil {
			faults = append(faults, fmt.Errorf("%s: it must be %s", key, describe(field.Type)))
		}
	}
	return errors.Join(faults...)
}

// decode sets one field. It omits the decoder's message about a wrong value, which may show the
// value, and that may be a secret.
func decode(value, config any, field string) error {
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result: config, ErrorUnused: true, MatchName: same,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(mapstructure.StringToTimeDurationHookFunc(), wholeNumber),
	})
	if err != nil {
		return err
	}
	return decoder.Decode(map[string]any{field: value})
}

// same reports whether a key of a file names a field.
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

// isData reports whether values of a type can be written in a file.
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

// wholeNumber refuses a number with a fraction, or a too large one, for an integer: JSON has
// only one kind of number.
func wholeNumber(_, to reflect.Type, value any) (any, error) {
	f, ok := value.(float64)
	if ok && (to.Kind() == reflect.Int || to.Kind() == reflect.Int64) && (f != math.Trunc(f) || math.Abs(f) >= 1<<63) {
		return nil, errors.New("it is not a whole number")
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
