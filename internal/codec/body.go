package codec

import "bytes"

// A slice of bytes or numbers of at least MinPart bytes is sent as a part of its own.
const MinPart = 64 << 10

// A Body is an encoded value: CBOR, and the large slices that the CBOR refers to by number. Parts
// are the memory of the value itself, so that a gigabyte is not copied only to be sent. The value
// must not be changed while the body is in use.
type Body struct {
	Head  []byte
	Parts [][]byte
}

// Size returns the size of the body in bytes.
func (b Body) Size() int {
	n := len(b.Head)
	for _, p := range b.Parts {
		n += len(p)
	}
	return n
}

// Detach returns a copy of the body, so that the value it was made from may be changed.
func (b Body) Detach() Body {
	parts := b.Parts
	b.Parts = nil
	for _, p := range parts {
		b.Parts = append(b.Parts, bytes.Clone(p))
	}
	return b
}
