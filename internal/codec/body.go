package codec

import "bytes"

// MinPart is the size in bytes from which on a slice of bytes or numbers
// travels as a part of its own.
const MinPart = 64 << 10

// A Body is a value on its way: CBOR, and beside it the large slices that the
// CBOR refers to by number. Parts are the memory of the value itself, which is
// therefore not to be changed while the body is in use: a gigabyte is never
// copied only to be sent.
type Body struct {
	Head  []byte
	Parts [][]byte
}

// Size returns how many bytes the body has.
func (b Body) Size() int {
	n := len(b.Head)
	for _, p := range b.Parts {
		n += len(p)
	}
	return n
}

// Detach returns the body with parts of its own: the value that it was made
// from may be changed then.
func (b Body) Detach() Body {
	parts := b.Parts
	b.Parts = nil
	for _, p := range parts {
		b.Parts = append(b.Parts, bytes.Clone(p))
	}
	return b
}
