package output

import (
	"bytes"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

func TestLinesHavePrefixes(t *testing.T) {
	var out bytes.Buffer
	secrets := &Redactor{}
	secrets.Learn(map[string]driver.Secret{"K": "hunter2\nsecond line", "SHORT": "ab"})
	o := NewPrinter(&out, nil, false, secrets)
	a, none := o.Lines(Source{Label: "a"})
	b, _ := o.Lines(Source{Label: "b"})
	if none != nil {
		t.Error("stderr is shown to no writer")
	}
	none.Write([]byte("lost"))
	none.Flush()
	for _, s := range []string{"one\ntw", "o\n", "ab hun", "ter2\r\n", "second line\n", "\n", "end"} {
		a.Write([]byte(s))
		b.Write([]byte("x"))
	}
	a.Flush()
	b.Flush()
	a.Flush()
	want := "[a] one\n[a] two\n[a] ab [redacted]\n[a] [redacted]\n[a] \n[a] end\n[b] xxxxxxx\n"
	if out.String() != want {
		t.Errorf("got %q\nwant %q", out.String(), want)
	}
}

func TestLongLinesAreNotHeldForEver(t *testing.T) {
	var out bytes.Buffer
	w, _ := NewPrinter(&out, nil, false, &Redactor{}).Lines(Source{Label: "a"})
	for range 40 {
		w.Write(bytes.Repeat([]byte("x"), 4<<10))
	}
	if len(w.held) >= longestLine || out.Len() < 2*longestLine {
		t.Errorf("%d bytes are held, %d were printed", len(w.held), out.Len())
	}
}

// A node's output can neither leave its line nor hide its prefix, except as raw output.
func TestOutputCommandsNoTerminal(t *testing.T) {
	in := "\x1b[31mred\x1b[0m\tok\n10%\r20%\r\x1b[K30%\r\n" + "mine\r\x1b[2K[node 1] theirs\nhun\x1b[1mter2\nhunter2\n"
	for raw, want := range map[bool]string{
		false: "[a] red\tok\n[a] 30%\n[a] [node 1] theirs\n[a] [redacted]\n[a] [redacted]\n",
		true:  "[a] \x1b[31mred\x1b[0m\tok\n[a] 10%\r20%\r\x1b[K30%\r\n[a] mine\r\x1b[2K[node 1] theirs\n[a] hun\x1b[1mter2\n[a] [redacted]\n",
	} {
		var out bytes.Buffer
		secrets := &Redactor{}
		secrets.Learn(map[string]driver.Secret{"K": "hunter2"})
		w, _ := NewPrinter(&out, nil, raw, secrets).Lines(Source{Label: "a"})
		w.Write([]byte(in))
		w.Flush()
		if out.String() != want {
			t.Errorf("raw is %v: got %q\nwant %q", raw, out.String(), want)
		}
	}
}
