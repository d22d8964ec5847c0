package printable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for name, tt := range map[string]struct{ in, want string }{
		"plain":                      {"a\tb\nc é 世 👩‍🔬", "a\tb\nc é 世 👩‍🔬"},
		"colours":                    {"\x1b[1;31mred\x1b[0m", "red"},
		"colours in one character":   {"\u009b31mred\u009bm", "red"},
		"cursor":                     {"a\x1b[2A\x1b[2Kb\x1b[?25l", "ab"},
		"a window's title":           {"\x1b]0;root@laptop\ax\x1b]52;c;aGk=\x1b\\y\u009d0;z\u009cw", "xyw"},
		"a device's string":          {"\x1bPq#0\x1b\\a\u0090q\u009cb", "ab"},
		"a reset":                    {"\x1bca\x1b(0b\x1b7c", "abc"},
		"a sequence that has no end": {"\x1b]0;the rest is seen\nand this\x1b[31", "0;the rest is seen\nand this31"},
		"a sequence at the end":      {"a\x1b", "a"},
		"control characters":         {"a\x00b\x07c\x08d\x0be\x7ff\u0085g", "abcdefg"},
		"directions":                 {"a\u202eb\u2066c\u200fd\u061ce", "abcde"},
		"tags":                       {"a\U000e0041\U000e007fb\ufeffc", "abc"},
		"lines":                      {"a\r\nb\rc\u2028d\u2029e", "a\nb\nc\nd\ne"},
		"bytes that are no UTF-8":    {"a\xffb\xc2\x1b\x9b2Jc", "a\ufffdb\ufffd\ufffd2Jc"},
	} {
		if got := Text(tt.in); got != tt.want {
			t.Errorf("%s: Text(%q) = %q, want %q", name, tt.in, got, tt.want)
		}
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"a\n": "a", "a\r\n": "a", "10%\r20%\r30%\r\n": "30%", "10%\r\x1b[Kdone": "done", "[node 0] ok\rrm -rf /": "rm -rf /",
		"a\u2028b": "a b", "\r\r": "", "\x1b[2K\r": "", "a\tb": "a\tb",
	} {
		if got := Line(in); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
}

// Text leaves nothing that controls a terminal, and changes nothing more when applied again.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a\x1b[31mb", "\x1b\x1b[[31m", "\u009b\x1b]\a", "\xc2\x1b[0m\x9b", "\x1b\u009b31m", "a\r\r\nb", strings.Repeat("\x1b]", 5000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if !utf8.ValidString(got) || Text(got) != got {
			t.Errorf("Text(%q) = %q, and Text of that is %q", s, got, Text(got))
		}
		for _, r := range got {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("Text(%q) = %q contains %U", s, got, r)
			}
		}
		if line := Line(s); strings.ContainsAny(line, "\r\n") {
			t.Errorf("Line(%q) = %q", s, line)
		}
	})
}
