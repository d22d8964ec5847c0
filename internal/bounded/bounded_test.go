package bounded

import (
	"errors"
	"strings"
	"testing"
)

func TestBuffer(t *testing.T) {
	for name, c := range map[string]struct {
		b    *Buffer
		want string
		fail bool
	}{
		"all or nothing": {&Buffer{Most: 5}, "abc", true},
		"the first":      {&Buffer{Most: 5, First: true}, "abcde", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, first := c.b.Write([]byte("abc"))
			if first != nil || c.b.Err() != nil {
				t.Errorf("%v, %v", first, c.b.Err())
			}
			_, err := c.b.Write([]byte("def"))
			if c.b.String() != c.want || errors.Is(err, ErrTooLong) != c.fail || !errors.Is(c.b.Err(), ErrTooLong) {
				t.Errorf("%q, %v, %v", c.b.String(), err, c.b.Err())
			}
		})
	}
}

// A buffer that says nothing of its bound has one.
func TestBufferHasABound(t *testing.T) {
	var b Buffer
	for range 4 {
		b.Write(make([]byte, Usual/2+1))
	}
	if len(b.String()) > Usual || b.Err() == nil {
		t.Errorf("%d bytes, %v", len(b.String()), b.Err())
	}
}

func TestReadAll(t *testing.T) {
	if text, err := ReadAll(strings.NewReader("abc"), 3); string(text) != "abc" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := ReadAll(strings.NewReader("abcd"), 3); text != nil || !errors.Is(err, ErrTooLong) {
		t.Errorf("%q, %v", text, err)
	}
}
