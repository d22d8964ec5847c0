package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// These are the parts of CBOR (RFC 8949, section 3) that plans encode and decode themselves.
const (
	majorUint  = 0
	majorBytes = 2
	majorText  = 3
	majorArray = 4
	majorMap   = 5
	majorTag   = 6

	null      = 0xf6
	undefined = 0xf7
)

var majorNames = [8]string{"a number", "a negative number", "bytes", "text", "an array", "a map", "a tag", "a simple value"}

// writeHead starts an item: its major type and its length.
func writeHead(buf *bytes.Buffer, major byte, n int) {
	var b [9]byte
	switch {
	case n < 24:
		buf.WriteByte(major<<5 | byte(n))
	case n <= math.MaxUint8:
		buf.Write([]byte{major<<5 | 24, byte(n)})
	case n <= math.MaxUint16:
		b[0] = major<<5 | 25
		buf.Write(binary.BigEndian.AppendUint16(b[:1], uint16(n)))
	case uint64(n) <= math.MaxUint32:
		b[0] = major<<5 | 26
		buf.Write(binary.BigEndian.AppendUint32(b[:1], uint32(n)))
	default:
		b[0] = major<<5 | 27
		buf.Write(binary.BigEndian.AppendUint64(b[:1], uint64(n)))
	}
}

// An encoder builds a body.
type encoder struct {
	bytes.Buffer
	parts [][]byte
}

// A decoder holds the rest of a well-formed head, and the parts.
type decoder struct {
	data  []byte
	parts [][]byte
	next  int // the number of the part that must be referred to next
}

// part removes a reference to a part from the front. Parts must be referred to in order, each once,
// so no two slices of a value share memory.
func (d *decoder) part() ([]byte, error) {
	tag, err := d.head(majorTag)
	if err != nil {
		return nil, err
	}
	if tag != tagPart {
		return nil, fmt.Errorf("found the tag %d instead of bytes", tag)
	}
	n, err := d.head(majorUint)
	if err != nil {
		return nil, err
	}
	if n != d.next || n >= len(d.parts) {
		return nil, fmt.Errorf("found a reference to part %d instead of part %d of %d", n, d.next, len(d.parts))
	}
	d.next++
	return d.parts[n], nil
}

// null removes a null from the front, if there is one.
func (d *decoder) null() bool {
	if d.data[0] != null && d.data[0] != undefined {
		return false
	}
	d.data = d.data[1:]
	return true
}

// head removes the head of an item from the front. The item must be of this major type.
func (d *decoder) head(major byte) (int, error) {
	first := d.data[0]
	if first>>5 != major {
		return 0, fmt.Errorf("found %s instead of %s", majorNames[first>>5], majorNames[major])
	}
	var n uint64
	switch rest := d.data[1:]; first & 31 {
	case 24:
		n, d.data = uint64(rest[0]), rest[1:]
	case 25:
		n, d.data = uint64(binary.BigEndian.Uint16(rest)), rest[2:]
	case 26:
		n, d.data = uint64(binary.BigEndian.Uint32(rest)), rest[4:]
	case 27:
		n, d.data = binary.BigEndian.Uint64(rest), rest[8:]
	default:
		n, d.data = uint64(first&31), rest
	}
	if n > math.MaxInt {
		return 0, fmt.Errorf("a length of %d is out of range", n)
	}
	return int(n), nil
}

// take removes n bytes from the front.
func (d *decoder) take(n int) []byte {
	p := d.data[:n]
	d.data = d.data[n:]
	return p
}
