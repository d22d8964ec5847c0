package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
)

// A bulk slice is sent as one byte string of its elements in little-endian
// order, under the tag that RFC 8746 has for them.
type bulk struct {
	tag   byte // 0 for []byte, which is a byte string itself
	width int
}

var bulkTypes = map[reflect.Type]bulk{
	reflect.TypeFor[[]byte]():    {0, 1},
	reflect.TypeFor[[]uint16]():  {69, 2},
	reflect.TypeFor[[]uint32]():  {70, 4},
	reflect.TypeFor[[]uint64]():  {71, 8},
	reflect.TypeFor[[]int8]():    {72, 1},
	reflect.TypeFor[[]int16]():   {77, 2},
	reflect.TypeFor[[]int32]():   {78, 4},
	reflect.TypeFor[[]int64]():   {79, 8},
	reflect.TypeFor[[]float32](): {85, 4},
	reflect.TypeFor[[]float64](): {86, 8},
}

func bulkOf(t reflect.Type) (bulk, bool) {
	b, ok := bulkTypes[t]
	return b, ok
}

func (b bulk) size(v reflect.Value) int { return v.Len() * b.width }

func (b bulk) encode(buf *bytes.Buffer, v reflect.Value) error {
	if v.IsNil() {
		return buf.WriteByte(null)
	}
	n := b.size(v)
	if b.tag == 0 {
		writeHead(buf, majorBytes, n)
		buf.Write(v.Bytes())
		return nil
	}
	writeHead(buf, majorTag, int(b.tag))
	writeHead(buf, majorBytes, n)
	buf.Grow(n)
	p, err := binary.Append(buf.AvailableBuffer(), binary.LittleEndian, v.Interface())
	buf.Write(p) // in place already
	return err
}

func (b bulk) decode(d *decoder, v reflect.Value) error {
	if d.null() {
		v.SetZero()
		return nil
	}
	if b.tag != 0 {
		tag, err := d.head(majorTag)
		if err != nil {
			return err
		}
		if tag != int(b.tag) {
			return fmt.Errorf("a %s has the tag %d, not %d", v.Type(), b.tag, tag)
		}
	}
	n, err := d.head(majorBytes)
	if err != nil {
		return err
	}
	if n%b.width != 0 {
		return fmt.Errorf("%d bytes are not a whole number of elements of %s", n, v.Type())
	}
	p := d.take(n)
	if b.tag == 0 {
		v.SetBytes(bytes.Clone(p))
		return nil
	}
	s := reflect.MakeSlice(v.Type(), n/b.width, n/b.width)
	_, err = binary.Decode(p, binary.LittleEndian, s.Interface())
	v.Set(s)
	return err
}
