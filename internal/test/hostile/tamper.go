package hostile

import (
	"bytes"
	"io"
	"slices"
)

// Pass relays the honest output.
func Pass(_ *Session, dst io.Writer, src io.Reader) { io.Copy(dst, src) }

// Say writes text instead of the honest output.
func Say(text []byte) Tamper {
	return func(_ *Session, dst io.Writer, _ io.Reader) { dst.Write(text) }
}

// After passes the honest output up to an offset, and then runs another Tamper.
func After(offset int64, then Tamper) Tamper {
	return func(s *Session, dst io.Writer, src io.Reader) {
		if _, err := io.CopyN(dst, src, offset); err == nil {
			then(s, dst, src)
		}
	}
}

// Then runs several Tampers in turn. All but the last must leave the rest of src unread.
func Then(tampers ...Tamper) Tamper {
	return func(s *Session, dst io.Writer, src io.Reader) {
		for _, t := range tampers {
			t(s, dst, src)
		}
	}
}

// Silence writes nothing more, but keeps the session open.
func Silence(s *Session, _ io.Writer, _ io.Reader) { <-s.Done() }

// Cut ends the output.
func Cut(*Session, io.Writer, io.Reader) {}

// Flood repeats a unit up to limit bytes, or until the client stops reading. Then it passes the
// rest.
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

// Insert writes text before the rest of the honest output.
func Insert(text []byte) Tamper {
	return func(s *Session, dst io.Writer, src io.Reader) {
		dst.Write(text)
		Pass(s, dst, src)
	}
}

// Block changes the next size bytes of the honest output.
func Block(size int64, change func([]byte) []byte) Tamper {
	return func(s *Session, dst io.Writer, src io.Reader) {
		block, _ := io.ReadAll(io.LimitReader(src, size)) // shorter at the end of src
		dst.Write(change(block))
		Pass(s, dst, src)
	}
}

// Drop omits a block.
func Drop([]byte) []byte { return nil }

// Twice repeats a block.
func Twice(b []byte) []byte { return slices.Concat(b, b) }

// Swap exchanges the halves of a block.
func Swap(b []byte) []byte { return slices.Concat(b[len(b)/2:], b[:len(b)/2]) }

// Flip inverts the bits of mask in each byte of a block.
func Flip(mask byte) func([]byte) []byte {
	return func(b []byte) []byte {
		b = bytes.Clone(b)
		for i := range b {
			b[i] ^= mask
		}
		return b
	}
}

// Crumbs passes the next 2000 bytes one at a time, and then the rest.
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
