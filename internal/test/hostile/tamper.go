package hostile

import (
	"bytes"
	"io"
	"slices"
)

// Pass is the truth.
func Pass(_ *Session, dst io.Writer, src io.Reader) { io.Copy(dst, src) }

// Say says text in place of the truth.
func Say(text []byte) Tamper {
	return func(_ *Session, dst io.Writer, _ io.Reader) { dst.Write(text) }
}

// After tells the truth up to an offset, and then goes on with another Tamper.
func After(offset int64, then Tamper) Tamper {
	return func(s *Session, dst io.Writer, src io.Reader) {
		if _, err := io.CopyN(dst, src, offset); err == nil {
			then(s, dst, src)
		}
	}
}

// Then is one Tamper after the other. All but the last must leave src as it is.
func Then(tampers ...Tamper) Tamper {
	return func(s *Session, dst io.Writer, src io.Reader) {
		for _, t := range tampers {
			t(s, dst, src)
		}
	}
}

// Silence says nothing more, and ends nothing.
func Silence(s *Session, _ io.Writer, _ io.Reader) { <-s.Done() }

// Cut is the end of the output.
func Cut(*Session, io.Writer, io.Reader) {}

// Flood repeats a unit up to so many bytes, or until the client listens no more. It
// ends with the truth.
func Flood(unit []byte, limit int64) Tamper {
	unit = bytes.Repeat(unit, max(1, 32<<10/len(unit)))
	return func(s *Session, dst io.Writer, src io.Reader) {
		for n := int64(0); n < limit; n += int64(len(unit)) {
			if _, err := dst.Write(unit); err != nil {
				return
			}
		}
		Pass(s, dst, src)
	}
}

// Insert says something before the rest of the truth.
func Insert(text []byte) Tamper {
	return func(s *Session, dst io.Writer, src io.Reader) {
		dst.Write(text)
		Pass(s, dst, src)
	}
}

// Block changes the next so many bytes of the truth.
func Block(size int64, change func([]byte) []byte) Tamper {
	return func(s *Session, dst io.Writer, src io.Reader) {
		block, _ := io.ReadAll(io.LimitReader(src, size)) // less, where there is no more
		dst.Write(change(block))
		Pass(s, dst, src)
	}
}

// Drop leaves a block out.
func Drop([]byte) []byte { return nil }

// Twice repeats a block.
func Twice(b []byte) []byte { return slices.Concat(b, b) }

// Swap exchanges the halves of a block.
func Swap(b []byte) []byte { return slices.Concat(b[len(b)/2:], b[:len(b)/2]) }

// Flip changes bits.
func Flip(mask byte) func([]byte) []byte {
	return func(b []byte) []byte {
		b = bytes.Clone(b)
		for i := range b {
			b[i] ^= mask
		}
		return b
	}
}

// Crumbs tells the truth byte by byte for a while.
func Crumbs(s *Session, dst io.Writer, src io.Reader) {
	one := make([]byte, 1)
	for range 2000 {
		if _, err := io.ReadFull(src, one); err != nil {
			return
		}
		dst.Write(one)
	}
	Pass(s, dst, src)
}
