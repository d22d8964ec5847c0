package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Odd collects the rows of lists that could not be read. Its methods can be called concurrently.
type Odd struct {
	mu   sync.Mutex
	rows []error
	more int
}

// mostOdd bounds how many odd rows are told one by one.
const mostOdd = 10

// Rows returns why rows were left out: the first ones, and how many more.
func (o *Odd) Rows() (rows []error, more int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.rows), o.more
}

func (o *Odd) add(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, had := range o.rows { // a list may be asked for again
		if had.Error() == err.Error() {
			return
		}
	}
	if len(o.rows) == mostOdd {
		o.more++
		return
	}
	o.rows = append(o.rows, err)
}

type oddKey struct{}

// Lenient returns a context for calls whose answers are lists of what is offered: a row that cannot be read is left out, and
// collected, and takes nothing from the others. It is not for lists of what exists: a machine that is not listed may seem gone.
func Lenient(ctx context.Context) (context.Context, *Odd) {
	odd := &Odd{}
	return context.WithValue(ctx, oddKey{}, odd), odd
}

// LeftOut reports whether a row may be left out, and then collects why it is.
func LeftOut(ctx context.Context, why error) bool {
	odd, lenient := ctx.Value(oddKey{}).(*Odd)
	if lenient {
		odd.add(why)
	}
	return lenient
}

// Unmarshal decodes JSON as [Client.Do] does: a whole number may be written with a fraction or an exponent, and in the context of
// [Lenient] rows that cannot be read are left out.
func Unmarshal(ctx context.Context, text []byte, out any) error {
	return decodeJSON(text, out, func(err error) bool { return LeftOut(ctx, err) })
}

// decodeJSON decodes one value. leftOut is as LeftOut.
func decodeJSON(text []byte, out any, leftOut func(error) bool) error {
	err := decodeStrictly(text, out)
	v := reflect.ValueOf(out)
	if err == nil || !json.Valid(text) || v.Kind() != reflect.Pointer || v.IsNil() {
		return err
	}
	text = wholeNumbers(text)
	v.Elem().SetZero()
	if decodeStrictly(text, out) == nil {
		return nil
	}
	d := &rowDecoder{} // a list of which no row can be read is no list of odd rows
	if d.decode(text, v.Elem()) != nil || len(d.odd) == 0 {
		return err // not of one row
	}
	for _, why := range d.odd {
		if !leftOut(why) {
			return err
		}
	}
	return nil
}

func decodeStrictly(text []byte, out any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber() // a number decoded into an interface keeps its digits
	if err := dec.Decode(out); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errMore
	}
	return nil
}

var errMore = errors.New("there is more after its JSON")

// wholeNumbers writes numbers such as 1.0 and 2e3 as 1 and 2000, as some services do and others expect.
func wholeNumbers(text []byte) []byte {
	return stringOrNumber.ReplaceAllFunc(text, func(part []byte) []byte {
		if part[0] == '"' || !bytes.ContainsAny(part, ".eE") {
			return part
		}
		n, err := strconv.ParseFloat(string(part), 64)
		if err != nil || n != math.Trunc(n) || math.Abs(n) >= 1<<53 {
			return part
		}
		return strconv.AppendInt(nil, int64(n), 10)
	})
}

var stringOrNumber = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*`)

// A rowDecoder decodes JSON of which rows cannot be read: those elements of lists and objects are left out that are the nearest
// around what does not fit.
type rowDecoder struct{ odd []error }

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func (d *rowDecoder) decode(text json.RawMessage, v reflect.Value) error {
	v.SetZero()
	err := decodeStrictly(text, v.Addr().Interface())
	if err == nil || v.Addr().Type().Implements(unmarshaler) {
		return err
	}
	v.SetZero()
	switch v.Kind() {
	case reflect.Pointer:
		to := reflect.New(v.Type().Elem())
		if err := d.decode(text, to.Elem()); err != nil {
			return err
		}
		v.Set(to)
	case reflect.Slice:
		var rows []json.RawMessage
		if json.Unmarshal(text, &rows) != nil {
			return err
		}
		v.Set(reflect.MakeSlice(v.Type(), 0, len(rows)))
		for i, row := range rows {
			if e, ok := d.row(strconv.Itoa(i), row, v.Type().Elem()); ok {
				v.Set(reflect.Append(v, e))
			}
		}
		if len(rows) > 0 && v.Len() == 0 {
			return err // of the whole list
		}
	case reflect.Map:
		var rows map[string]json.RawMessage
		if v.Type().Key().Kind() != reflect.String || json.Unmarshal(text, &rows) != nil {
			return err
		}
		v.Set(reflect.MakeMap(v.Type()))
		for key, row := range rows {
			if e, ok := d.row(key, row, v.Type().Elem()); ok {
				v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), e)
			}
		}
		if len(rows) > 0 && v.Len() == 0 {
			return err
		}
	case reflect.Struct:
		return d.fields(text, v, err)
	default:
		return err
	}
	return nil
}

// row decodes an element, or notes why it cannot be.
func (d *rowDecoder) row(key string, text json.RawMessage, t reflect.Type) (reflect.Value, bool) {
	e, before := reflect.New(t).Elem(), len(d.odd)
	err := d.decode(text, e)
	if err != nil {
		d.odd = append(d.odd[:before], fmt.Errorf("%.60s%.80s: %w", key, identity(text), err))
	}
	return e, err == nil
}

// identity names a row by its own words, if it has some.
func identity(text json.RawMessage) string {
	var row map[string]json.RawMessage
	if json.Unmarshal(text, &row) != nil {
		return ""
	}
	for _, key := range []string{"id", "name"} {
		if value, ok := row[key]; ok && len(value) < 60 {
			return fmt.Sprintf(" (%s %s)", key, value)
		}
	}
	return ""
}

// fields decodes a struct, of which one field does not fit as it is. The error of a field without rows is the struct's.
func (d *rowDecoder) fields(text json.RawMessage, v reflect.Value, failed error) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return failed
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct {
			if err := d.fields(text, v.Field(i), failed); err != nil {
				return err
			}
			continue
		}
		if !field.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = field.Name
		}
		member, there := members[name]
		for key, value := range members {
			if !there && strings.EqualFold(key, name) {
				member, there = value, true
			}
		}
		if !there {
			continue
		}
		if err := d.decode(member, v.Field(i)); err != nil {
			if _, told := errors.AsType[*json.UnmarshalTypeError](err); told {
				return fmt.Errorf("%s: %w", name, err)
			}
			return err
		}
	}
	return nil
}
