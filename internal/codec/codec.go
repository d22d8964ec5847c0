package codec

import (
	"bytes"
	"fmt"
	"math"
	"reflect"

	"github.com/fxamacker/cbor/v2"
)

// MaxDepth is how deep values may be nested: as deep as encoding/json allows.
const MaxDepth = 10000

var (
	toCBOR = must(cbor.EncOptions{
		ShortestFloat: cbor.ShortestFloatNone, // keeps float32 and float64 apart
		NaNConvert:    cbor.NaNConvertNone,
		InfConvert:    cbor.InfConvertNone,
		Time:          cbor.TimeRFC3339Nano,
		TimeTag:       cbor.EncTagRequired, // so that an any holds a time.Time again
		ByteArray:     cbor.ByteArrayToByteSlice,
		TextMarshaler: cbor.TextMarshalerTextString,
		IndefLength:   cbor.IndefLengthForbidden,
	}.UserBufferEncMode())

	fromCBOR = must(cbor.DecOptions{
		DefaultMapType:    reflect.TypeFor[map[string]any](),
		IntDec:            cbor.IntDecConvertSignedOrBigInt,
		UTF8:              cbor.UTF8DecodeInvalid,
		IndefLength:       cbor.IndefLengthForbidden, // counting its items ahead would be quadratic
		MaxNestedLevels:   MaxDepth,
		MaxArrayElements:  math.MaxInt32,
		MaxMapPairs:       math.MaxInt32,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		TextUnmarshaler:   cbor.TextUnmarshalerTextString,
	}.DecMode())
)

// must returns a mode made of the constants above.
func must[M any](mode M, err error) M {
	if err != nil {
		panic(err)
	}
	return mode
}

// Marshal returns the encoding of v.
func Marshal(v any) ([]byte, error) {
	if v == nil {
		return []byte{null}, nil
	}
	rv := reflect.ValueOf(v)
	if err := checkValue(rv); err != nil {
		return nil, err
	}
	p := planOf(rv.Type())
	var buf bytes.Buffer
	if n := p.size(rv); n > 0 {
		buf.Grow(n + n/16 + 512) // one allocation for what is mostly numbers
	}
	if err := p.encode(&buf, rv); err != nil {
		return nil, fmt.Errorf("codec: encode %T: %w", v, err)
	}
	return buf.Bytes(), nil
}

// Unmarshal decodes data into what v points to, which should be zero: maps
// that are there already are added to. It keeps no reference to data. After an
// error, part of the value may have been set.
func Unmarshal(data []byte, v any) error {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return fmt.Errorf("codec: decode into %T: not a pointer to a value", v)
	}
	// Everything below relies on this: lengths are those of data that is
	// there, and nesting is bounded.
	if err := fromCBOR.Wellformed(data); err != nil {
		return fmt.Errorf("codec: decode %s: %w", rv.Type().Elem(), err)
	}
	d := decoder{data: data}
	if err := planOf(rv.Type().Elem()).decode(&d, rv.Elem()); err != nil {
		return fmt.Errorf("codec: decode %s: %w", rv.Type().Elem(), err)
	}
	return nil
}
