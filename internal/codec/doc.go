// Package codec turns the arguments and results of functions into bytes and
// back. The bytes are CBOR (RFC 8949), with typed arrays (RFC 8746) where
// numbers come in bulk, and beside the CBOR the large slices as they are in
// memory: a [Body]. Decoding runs no code but the methods of the type that the
// caller asked for, and uses memory in proportion to the input and to the size
// of that type, whatever the input holds.
//
// # What arrives
//
//   - Booleans, integers, floats and strings arrive as they were: NaN,
//     infinities, negative zero and strings that are not UTF-8 included.
//   - A nil slice, map or pointer arrives nil, an empty one empty. A pointer to
//     something nil (a nil pointer or a nil slice) arrives as a nil pointer.
//   - Structs travel by field name. The tags `cbor` and, in its absence, `json`
//     are honoured as far as "-" and a name go. Unexported fields are
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
// # Large values
//
// Slices of bytes and of numbers ([]byte, []float32, []int, []time.Duration,
// named types of these) are sent as memory, wherever they are in structs,
// slices, arrays, maps and pointers, so long as no method on the way asks for
// something else. From [MinPart] bytes on they are parts of the body: neither
// [Marshal] nor [Unmarshal] copies them, so that the value sent must not be
// changed while its body is in use. What an interface holds, and structs that
// embed an unexported struct, go into the head as a whole.
package codec
