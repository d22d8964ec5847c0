package guardian

import (
	"fmt"
	"io"
	"reflect"

	"github.com/fxamacker/cbor/v2"

	"github.com/gputrain/gputrain/providers/driver"
)

// A Config is a provider as it goes through the pipe. Its credentials are in clear there.
type Config struct {
	Type   string                     // a registered one
	Fields map[string]cbor.RawMessage // those that are not zero
}

// Format writes only the type.
func (c Config) Format(w fmt.State, _ rune) { io.WriteString(w, c.Type) }

// Encode returns a provider as another process of this program can read it. That works for values of a registered type
// that consist of data alone.
func Encode(p driver.Provider) (Config, error) {
	name := driver.ConfigName(reflect.TypeOf(p))
	if _, ok := driver.RegisteredConfig(name); !ok {
		return Config{}, fmt.Errorf("its type %T is not registered by driver.RegisterConfig", p)
	}
	v := reflect.ValueOf(p)
	if v.Kind() != reflect.Struct {
		return Config{}, fmt.Errorf("its type %T is no struct", p)
	}
	if why := notData("Config", v); why != "" {
		return Config{}, fmt.Errorf("its %s, which no other process has", why)
	}
	c := Config{name, map[string]cbor.RawMessage{}}
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			continue // of whatever type
		}
		var err error
		field := v.Type().Field(i).Name
		if c.Fields[field], err = cbor.Marshal(v.Field(i).Interface()); err != nil { // without TextMarshaler, by which a Secret would be hidden
			return Config{}, fmt.Errorf("its Config.%s cannot be encoded: %w", field, err)
		}
	}
	return c, nil
}

// Decode returns the provider that was encoded.
func (c Config) Decode() (driver.Provider, error) {
	t, ok := driver.RegisteredConfig(c.Type)
	if !ok {
		return nil, fmt.Errorf("this program has no type %s", c.Type)
	}
	p := reflect.New(t).Elem()
	for name, value := range c.Fields {
		field := p.FieldByName(name)
		if !field.IsValid() || cbor.Unmarshal(value, field.Addr().Interface()) != nil { // whose error may show a secret
			return nil, fmt.Errorf("%s.%s cannot be read", c.Type, name)
		}
	}
	return p.Interface().(driver.Provider), nil
}

// notData says which part of a value is more than data, if any.
func notData(name string, v reflect.Value) string {
	switch v.Kind() {
	case reflect.Func, reflect.Chan, reflect.Interface, reflect.Pointer, reflect.UnsafePointer:
		if !v.IsNil() {
			return name + " is a " + v.Type().String()
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if why := notData(fmt.Sprintf("%s[%d]", name, i), v.Index(i)); why != "" {
				return why
			}
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			if why := notData(name+"[...]", i.Value()); why != "" {
				return why
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() && !v.Field(i).IsZero() {
				return name + "." + field.Name + " is not exported"
			}
			if why := notData(name+"."+field.Name, v.Field(i)); why != "" {
				return why
			}
		}
	}
	return ""
}
