// Package bounded keeps what strangers say: nodes, remote commands, and programs of this computer that repeat what they say.
package bounded

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// Usual bounds a Buffer that names no other bound: an honest helper command prints much less.
const Usual = 1 << 20

// ErrTooLong means that more was said than is kept.
var ErrTooLong = errors.New("the answer is too long")

// A Buffer receives an answer, which is expected to be short. Its zero value is ready. It can be written and read at the same time.
type Buffer struct {
	// Most is how many bytes it keeps. Zero means Usual.
	Most int
	// First makes it keep the first bytes, and drop all others. Without it, a Write that goes beyond Most fails with ErrTooLong,
	// which ends a remote command.
	First bool

	mu   sync.Mutex
	text []byte
	cut  bool
}

// Write keeps p. If there is no room for all of it, it keeps what fits with First, and else nothing of p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := b.most() - len(b.text)
	switch {
	case len(p) <= room:
		b.text = append(b.text, p...)
	case b.First:
		b.cut, b.text = true, append(b.text, p[:room]...)
	default:
		b.cut = true
		return 0, b.tooLong()
	}
	return len(p), nil
}

func (b *Buffer) most() int {
	if b.Most == 0 {
		return Usual
	}
	return b.Most
}

func (b *Buffer) tooLong() error { return fmt.Errorf("%w: more than %d bytes", ErrTooLong, b.most()) }

// String returns what is kept.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

// Err returns ErrTooLong if more was said than is kept.
func (b *Buffer) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut {
		return b.tooLong()
	}
	return nil
}

// ReadAll reads r to its end. If that has more than most bytes the error is ErrTooLong.
func ReadAll(r io.Reader, most int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(text) > most {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLong, most)
	}
	return text, err
}
