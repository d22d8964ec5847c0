package bootstrap

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTailKeepsTheEnd(t *testing.T) {
	var last tail
	for i := range 1000 {
		fmt.Fprintf(&last, "line %d\n\n", i)
	}
	fmt.Fprint(&last, "unfinished")
	lines := last.Lines()
	if len(lines) != tailLines || lines[0] != "line 981" || lines[tailLines-1] != "unfinished" {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}

func TestTailIsBounded(t *testing.T) {
	var last tail
	chunk := []byte(strings.Repeat("é", 1<<15)) // a line that never ends
	for range 100 {
		last.Write(chunk)
	}
	if cap(last.line) > 16*tailWidth {
		t.Errorf("%d bytes are held for one line", cap(last.line))
	}
	lines := last.Lines()
	if len(lines) != 1 || len(lines[0]) > tailWidth+len("...") || !strings.HasSuffix(lines[0], "é") || !utf8.ValidString(lines[0]) {
		t.Errorf("lines %q", lines)
	}
}

// The tail is the same, printable and bounded, however the output is split into writes.
func FuzzTail(f *testing.F) {
	f.Add([]byte("one\ntwo\r\nthree"), 3)
	f.Add([]byte("10%\r50%\r\x1b[31m90%\x1b[0m\n\n\n"), 1)
	f.Add([]byte("\xff\xfe\x00"+strings.Repeat("x", 3*tailWidth)), 7)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		var whole, parts tail
		whole.Write(data)
		for chunk := range slices.Chunk(data, max(n, 1)) {
			parts.Write(chunk)
		}
		lines := whole.Lines()
		if got := parts.Lines(); !slices.Equal(got, lines) {
			t.Fatalf("in parts %q, whole %q", got, lines)
		}
		if len(lines) > tailLines {
			t.Fatalf("%d lines", len(lines))
		}
		for _, l := range lines {
			if len(l) > tailWidth+3 || !utf8.ValidString(l) || strings.ContainsAny(l, "\r\n\x1b\x00") {
				t.Fatalf("line %q", l)
			}
		}
	})
}
