package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unsafe"
)

// A bulk describes slices that are sent as their elements in little-endian order, under their tag
// of RFC 8746: as one byte string, or, from MinPart bytes on, as the number of a part, under
// tagPart.
type bulk struct {
	tag   int // 0 for bytes, which need no tag in a byte string
	width int
	// native means that the elements have the same form in memory as in the encoding.
	native bool
}

// tagPart marks the number of a part. It is not registered for another use.
const tagPart = 0x67707061

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

func bulkOf(t reflect.Type) (bulk, bool) {
	if t.Kind() != reflect.Slice || hasMethods(t) || hasMethods(t.Elem()) {
		return bulk{}, false
	}
	tag, width := 0, 0
	native := littleEndian
	switch t.Elem().Kind() {
	case reflect.Uint8:
		width, native = 1, true
	case reflect.Int8:
		tag, width, native = 72, 1, true
	case reflect.Uint16:
		tag, width = 69, 2
	case reflect.Uint32:
		tag, width = 70, 4
	case reflect.Uint64:
		tag, width = 71, 8
	case reflect.Uint:
		tag, width, native = 71, 8, native && strconv.IntSize == 64
	case reflect.Int16:
		tag, width = 77, 2
	case reflect.Int32:
		tag, width = 78, 4
	case reflect.Int64:
		tag, width = 79, 8
	case reflect.Int:
		tag, width, native = 79, 8, native && strconv.IntSize == 64
	case reflect.Float32:
		tag, width = 85, 4
	case reflect.Float64:
		tag, width = 86, 8
	default:
		return bulk{}, false
	}
	return bulk{tag, width, native}, true
}

// size returns the number of bytes that the slice adds to the head.
func (b bulk) size(v reflect.Value) int {
	if n := v.Len() * b.width; n < MinPart {
		return n
	}
	return 0
}

func (b bulk) encode(e *encoder, v reflect.Value) error {
	if v.IsNil() {
		return e.WriteByte(null)
	}
	if b.tag != 0 {
		writeHead(&e.Buffer, majorTag, b.tag)
	}
	p := b.bytes(v)
	if len(p) >= MinPart {
		writeHead(&e.Buffer, majorTag, tagPart)
		writeHead(&e.Buffer, majorUint, len(e.parts))
		e.parts = append(e.parts, p)
		return nil
	}
	writeHead(&e.Buffer, majorBytes, len(p))
	_, err := e.Write(p)
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
		if tag != b.tag {
			return fmt.Errorf("a %s has the tag %d, not %d", v.Type(), b.tag, tag)
		}
	}
	if d.data[0]>>5 == majorTag {
		p, err := d.part()
		if err != nil {
			return err
		}
		return b.take(p, v)
	}
	n, err := d.head(majorBytes)
	if err != nil {
		return err
	}
	return b.copy(d.take(n), v)
}

// bytes returns the elements as they are sent: the slice's own memory, if the form is the same.
func (b bulk) bytes(v reflect.Value) []byte {
	if b.native {
		return memory(v, b.width)
	}
	out := make([]byte, 0, v.Len()*b.width)
	for i := range v.Len() {
		var bits uint64
		switch e := v.Index(i); {
		case e.CanInt():
			bits = uint64(e.Int())
		case e.CanUint():
			bits = e.Uint()
		case b.width == 4:
			bits = uint64(math.Float32bits(float32(e.Float())))
		default:
			bits = math.Float64bits(e.Float())
		}
		var le [8]byte
		binary.LittleEndian.PutUint64(le[:], bits)
		out = append(out, le[:b.width]...)
	}
	return out
}

// copy sets v to a slice of its own with the elements in p.
func (b bulk) copy(p []byte, v reflect.Value) error {
	if len(p)%b.width != 0 {
		return fmt.Errorf("%d bytes are not a whole number of elements of %s", len(p), v.Type())
	}
	s := reflect.MakeSlice(v.Type(), len(p)/b.width, len(p)/b.width)
	v.Set(s)
	if b.native {
		copy(memory(s, b.width), p)
		return nil
	}
	for i := range s.Len() {
		var le [8]byte
		copy(le[:], p[i*b.width:(i+1)*b.width])
		bits, e := binary.LittleEndian.Uint64(le[:]), s.Index(i)
		switch {
		case e.CanInt():
			shift := 64 - 8*b.width
			n := int64(bits<<shift) >> shift
			if e.OverflowInt(n) {
				return fmt.Errorf("%d does not fit into the %s of this platform", n, e.Type())
			}
			e.SetInt(n)
		case e.CanUint():
			if e.OverflowUint(bits) {
				return fmt.Errorf("%d does not fit into the %s of this platform", bits, e.Type())
			}
			e.SetUint(bits)
		case b.width == 4:
			e.SetFloat(float64(math.Float32frombits(uint32(bits))))
		default:
			e.SetFloat(math.Float64frombits(bits))
		}
	}
	return nil
}

// take makes v a slice over the memory of p, if that is possible.
func (b bulk) take(p []byte, v reflect.Value) error {
	if len(p) == 0 || len(p)%b.width != 0 || !b.native || uintptr(unsafe.Pointer(&p[0]))%uintptr(b.width) != 0 {
		return b.copy(p, v)
	}
	// Elements are numbers: any bytes are valid, and contain no pointers.
	v.Set(reflect.SliceAt(v.Type().Elem(), unsafe.Pointer(&p[0]), len(p)/b.width))
	return nil
}

// memory returns the memory of a slice's elements.
func memory(v reflect.Value, width int) []byte {
	if v.Len() == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(v.UnsafePointer()), v.Len()*width)
}
