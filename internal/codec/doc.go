// Package codec encodes and decodes the arguments and results of functions. The encoding is CBOR
// (RFC 8949), with typed arrays (RFC 8746) for slices of numbers; large slices are not in the CBOR
// but beside it, as they are in memory: see [Body]. Decoding runs no code except methods of the
// type that the caller asked for, and uses memory in proportion to the input and to the size of
// that type, whatever the input contains.
//
// # What arrives
//
//   - Booleans, integers, floats and strings arrive unchanged,
//     including NaN, infinities, negative zero and strings that are not UTF-8.
//   - A nil slice, map or pointer arrives as nil, an empty one as empty. A pointer to
//     something nil (a nil pointer or a nil slice) arrives as a nil pointer.
//   - Structs are sent by field name. The tags `cbor` and, in its absence, `json`
//     are honoured for "-" and for names. Unexported fields are
//     not sent, and arrive as zero. A field that the receiver lacks is an error.
//   - Maps may have any key but a pointer. Their order is not kept.
//   - A time.Time keeps its nanoseconds and its zone's offset; the zone's name
//     and the monotonic reading are lost. A year outside 0 to 9999, or an
//     offset with seconds, which CBOR's text form lacks, is refused by
//     [Marshal]: send t.UTC().
//   - Types with MarshalCBOR, MarshalBinary or MarshalText and the method for
//     the way back use these. A type with only one of the two is refused. A
//     struct that embeds such a type has its methods too, and uses them.
//   - A value in an interface of type any arrives as a generic value: nil,
//     bool, int64 (big.Int beyond it), float64, string, []byte, time.Time,
//     []any, map[string]any. A struct in an any arrives as map[string]any. A
//     map in an any must have string keys.
//   - Pointers are followed: two pointers to one value arrive as two copies.
//
// # What is refused
//
// [Check] refuses types that cannot be sent, and names the field: channels, functions, unsafe
// pointers, uintptr, complex numbers, interfaces with methods, maps with pointer keys, and structs
// without exported fields. [Marshal] refuses the same types inside interfaces, and values nested
// deeper than [MaxDepth], such as cyclic values.
//
// # Large values
//
// Slices of bytes and of numbers ([]byte, []float32, []int, []time.Duration, named types of these)
// are sent as memory, wherever they are in structs, slices, arrays, maps and pointers, unless a
// method of a type above them encodes it differently. From [MinPart] bytes on they are parts of the
// body: neither [Marshal] nor [Unmarshal] copies them, so the value must not be changed while its
// body is in use. Values in interfaces, and structs that embed an unexported struct, are encoded in
// the head as a whole.
//
// The CBOR library encodes everything else. It would copy and convert large slices: for 16 MiB of
// float32 and 16 MiB of bytes, there and back, it takes 650 ms and 205 MB; this package takes 2 µs
// and 400 bytes.
package codec
