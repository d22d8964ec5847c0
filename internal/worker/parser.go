package worker

import (
	"encoding/binary"
	"math"
)

// maxSize bounds announced sizes, so that arithmetic on them does not overflow.
const maxSize = math.MaxInt >> 8

// A parser reads the fields of a binary header. After a mistake every field is zero and bad is set.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) uint() uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 || p.bad {
		p.bad = true
		return 0
	}
	p.b = p.b[n:]
	return v
}

// size returns a length or a count.
func (p *parser) size() int {
	v := p.uint()
	if v > maxSize {
		p.bad = true
		return 0
	}
	return int(v)
}

// bytes returns a string without copying it.
func (p *parser) bytes() []byte {
	n := p.size()
	if n > len(p.b) || p.bad {
		p.bad = true
		return nil
	}
	s := p.b[:n]
	p.b = p.b[n:]
	return s
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
