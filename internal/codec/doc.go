// Package codec turns the arguments and results of functions into bytes and
// back. The bytes are CBOR (RFC 8949), with typed arrays (RFC 8746) where
// numbers come in bulk. Decoding runs no code but the methods of the type that
// the caller asked for, and uses memory in proportion to the input and to the
// size of that type, whatever the input holds.
//
// # What arrives
//
//   - Booleans, integers, floats and strings arrive as they were: NaN,
//     infinities, negative zero and strings that are not UTF-8 included.
//   - A nil slice, map or pointer arrives nil, an empty one empty. A pointer to
//     something nil (a nil pointer or a nil slice) arrives as a nil pointer.
//   - Structs travel by field name. The tags `cbor` and, in its absence, `json`
//     are honoured ("-", a name, omitempty, omitzero). Unexported fields are
//     not sent and arrive zero. A field that the receiver lacks is an error.
//   - Maps may have any key but a pointer. Their order is not kept.
//   - A time.Time keeps its nanoseconds and its zone's offset; the zone's name
//     and the monotonic reading are lost. A year outside 0 to 9999, or an
//     offset with seconds, which CBOR's text form lacks, is refused by
//     [Marshal]: send t.UTC().
//   - Types with MarshalCBOR, MarshalBinary or MarshalText and the method for
//     the way back use these. A type with one and not the other is refused. A
//     struct that embeds such a type has its methods too, and is sent by them.
//   - What an interface of type any holds arrives as a generic value: nil,
//     bool, int64 (big.Int beyond it), float64, string, []byte, time.Time,
//     []any, map[string]any. A struct in an any arrives as map[string]any. A
//     map in an any must have string keys.
//   - Pointers are followed: two to the same value arrive as two copies.
//
// # What is refused
//
// [Check] refuses types that cannot travel, and names the field: channels,
// functions, unsafe pointers, uintptr, complex numbers, interfaces with
// methods, maps with pointer keys, and structs none of whose fields are
// exported. [Marshal] refuses the same where an interface hides it, and values
// nested deeper than [MaxDepth], which every cyclic value is.
//
// # Speed
//
// []byte and slices of the sized numeric types ([]float32, []int64 and so on,
// not []int) are copied as memory, wherever they are in structs, slices, maps
// and pointers, so long as no method or tag option on the way asks for
// something else.
package codec
