package codec

import (
	"fmt"
	"math"
	"reflect"

	"github.com/fxamacker/cbor/v2"
)

// MaxDepth bounds the nesting of values. encoding/json has the same bound.
const MaxDepth = 10000

var (
	toCBOR = must(cbor.EncOptions{
		ShortestFloat: cbor.ShortestFloatNone, // so that float32 and float64 stay distinct
		NaNConvert:    cbor.NaNConvertNone,
		InfConvert:    cbor.InfConvertNone,
		Time:          cbor.TimeRFC3339Nano,
		TimeTag:       cbor.EncTagRequired, // so that an any contains a time.Time again
		ByteArray:     cbor.ByteArrayToByteSlice,
		TextMarshaler: cbor.TextMarshalerTextString,
		IndefLength:   cbor.IndefLengthForbidden,
	}.UserBufferEncMode())

	fromCBOR = must(cbor.DecOptions{
		DefaultMapType:    reflect.TypeFor[map[string]any](),
		IntDec:            cbor.IntDecConvertSignedOrBigInt,
		UTF8:              cbor.UTF8DecodeInvalid,
		IndefLength:       cbor.IndefLengthForbidden, // counting its items in advance would be quadratic
		MaxNestedLevels:   MaxDepth,
		MaxArrayElements:  math.MaxInt32,
		MaxMapPairs:       math.MaxInt32,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		TextUnmarshaler:   cbor.TextUnmarshalerTextString,
	}.DecMode())
)

// must returns a mode that is made from the constants above.
func must[M any](mode M, err error) M {
	if err != nil {
		panic(err)
	}
	return mode
}

// Marshal returns the encoding of v, which shares memory with v.
func Marshal(v any) (Body, error) {
	if v == nil {
		return Body{Head: []byte{null}}, nil
	}
	rv := reflect.ValueOf(v)
	if err := checkValue(rv); err != nil {
		return Body{}, err
	}
	p := planOf(rv.Type())
	var e encoder
	if n := p.size(rv); n > 0 {
		e.Grow(n + n/16 + 512) // one allocation for values that are mostly numbers
	}
	if err := p.encode(&e, rv); err != nil {
		return Body{}, fmt.Errorf("encode %T: %w", v, err)
	}
	return Body{Head: e.Bytes(), Parts: e.parts}, nil
}

// Unmarshal decodes a body into what v points to, which should be zero: existing maps are added to.
// The large slices of v are the parts of the body, and the rest of v shares no memory with it.
// After an error part of the value may be set.
func Unmarshal(b Body, v any) error {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return fmt.Errorf("decode into %T: not a pointer to a value", v)
	}
	// The code below relies on this: lengths do not exceed the data, and nesting is bounded.
	if err := fromCBOR.Wellformed(b.Head); err != nil {
		return fmt.Errorf("decode %s: %w", rv.Type().Elem(), err)
	}
	d := decoder{data: b.Head, parts: b.Parts}
	err := planOf(rv.Type().Elem()).decode(&d, rv.Elem())
	if err == nil && d.next != len(d.parts) {
		err = fmt.Errorf("%d of %d parts are not referred to", len(d.parts)-d.next, len(d.parts))
	}
	if err != nil {
		return fmt.Errorf("decode %s: %w", rv.Type().Elem(), err)
	}
	return nil
}
