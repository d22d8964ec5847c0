package supervisor

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"": "''", "a b": "'a b'", "it's": `'it'\''s'`, "\n$x`y`": "'\n$x`y`'"} {
		if got, err := Quote(in); got != want || err != nil {
			t.Errorf("Quote(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	if _, err := Quote("a\x00"); !errors.Is(err, ErrNUL) {
		t.Error(err)
	}
}

// FuzzQuote makes real shells read the result of Quote from stdin, as node.sh does.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "'", `\`, "\n", "a\r\nb", "$HOME", "!!", everyByte, "\xff\xfe", "-n", "~", "{a,b}", "\x01\x7f\x81\x88", "é\xc3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := Quote(s)
		if strings.Contains(s, "\x00") {
			if !errors.Is(err, ErrNUL) {
				t.Fatalf("NUL passed: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, sh := range shells[1:] { // all but perl
			args := strings.Fields(sh)
			if _, err := exec.LookPath(args[0]); err != nil {
				continue
			}
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Stdin = strings.NewReader("LC_ALL=C\nf() { printf '%s|' \"$@\"; }\nf a " + q + " b\n")
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil || errs.Len() > 0 || out.String() != "a|"+s+"|b|" {
				t.Errorf("%s: %q came back as %q (%v, %s)", sh, s, out.String(), err, errs.String())
			}
		}
	})
}
