package output

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/credential"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestRedactionOfSecretsThatShareText(t *testing.T) {
	r := &Redactor{}
	for _, s := range []string{"token", "token-long", "token-list", "toad", "-list-of", "four", "abc", "first\nsecond\rthird\r\nab"} {
		r.Learn(map[string]driver.Secret{"K": driver.Secret(s)})
		r.Learn(map[string]driver.Secret{"K": driver.Secret(s)}) // as another attempt does
	}
	for in, want := range map[string]string{
		"":                           "",
		"tok":                        "tok",
		"a token, toads":             "a [redacted], [redacted]s",
		"token-lo token-long":        "[redacted]-lo [redacted]",
		"token-list-of":              "[redacted]-of",
		"tokentoken":                 "[redacted][redacted]",
		"totoken":                    "to[redacted]",
		"abc ab four":                "abc ab [redacted]",
		"first second third":         "[redacted] [redacted] [redacted]",
		"first\nsecond\rthird\r\nab": "[redacted]",
	} {
		if got := r.raw(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestBeginningOfASecret(t *testing.T) {
	r := &Redactor{}
	if n := r.begun("anything"); n != 0 {
		t.Errorf("without secrets: %d bytes", n)
	}
	r.Learn(map[string]driver.Secret{"A": "hunter2", "B": "er2-and-more"})
	for in, want := range map[string]int{
		"": 0, "x": 0, "h": 1, "my hunter": 6, "hunter2": 3, "hunter2 ": 0, "er2-and-mor": 11, "er2-and-more!": 0, "hunter2-and": 7,
	} {
		if got := r.begun(in); got != want {
			t.Errorf("the last %d bytes of %q may begin a secret, want %d", got, in, want)
		}
	}
}

// TestRedactionIsThatOfAList compares redaction with a search for the longest secret at each offset. Secrets and texts
// have few letters, so that many begin, end and contain others.
func TestRedactionIsThatOfAList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func(most int) string {
		b := make([]byte, random.IntN(most+1))
		for i := range b {
			b[i] = "abc\x00\xff"[random.IntN(5)]
		}
		return string(b)
	}
	for range 300 {
		r := &Redactor{}
		var list []string
		for range random.IntN(30) {
			s := word(9)
			r.Learn(map[string]driver.Secret{"K": driver.Secret(s)})
			if len(s) >= credential.ShortestKnown {
				list = append(list, s)
			}
		}
		text := word(200)
		var want strings.Builder
		begun := 0
		for i := 0; i < len(text); {
			longest := ""
			for _, s := range list {
				if strings.HasPrefix(text[i:], s) && len(s) > len(longest) {
					longest = s
				}
				if begun == 0 && len(text[i:]) < len(s) && strings.HasPrefix(s, text[i:]) {
					begun = len(text[i:])
				}
			}
			if longest != "" {
				want.WriteString("[redacted]")
				i += len(longest)
				continue
			}
			want.WriteByte(text[i])
			i++
		}
		if got := r.raw(text); got != want.String() {
			t.Fatalf("%q of %q becomes %q, want %q", list, text, got, want.String())
		}
		if got := r.begun(text); got < begun {
			t.Fatalf("%q of %q: %d bytes may begin a secret, want %d", list, text, got, begun)
		}
	}
}

// A secret with control sequences in between is still redacted.
func TestSecretsWithSequencesInside(t *testing.T) {
	secrets := &Redactor{}
	secrets.Learn(map[string]driver.Secret{"K": "hunter2", "PEM": "line one\nline\x1btwo"})
	for _, in := range []string{"hunter2", "hun\x1b[0mter2", "h\x00unter\u202e2", "\x1b]0;hunter2\a!", "line\x1btwo"} {
		if got := secrets.Text(in); strings.Contains(got, "hunter2") || strings.Contains(got, "two") {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}

// A secret that begins with another one is redacted completely.
func TestSecretsThatBeginAlike(t *testing.T) {
	for range 20 { // map order is random
		var r Redactor
		r.Learn(map[string]driver.Secret{"A": "hunter2", "B": "hunter2-and-more", "C": "hunter2-and"})
		if got := r.Text("<hunter2-and-more>"); got != "<[redacted]>" {
			t.Fatal(got)
		}
	}
}

func FuzzRedaction(f *testing.F) {
	f.Add("hunter2\nlines", "my hunter2 is here: hun\x1b[0mter2")
	f.Fuzz(func(t *testing.T, secret, text string) {
		r := &Redactor{}
		r.Learn(map[string]driver.Secret{"K": driver.Secret(secret), "L": driver.Secret(secret + "x")})
		if got := r.raw(text); len(secret) >= credential.ShortestKnown && !strings.Contains("[redacted]", secret) && strings.Contains(strings.ReplaceAll(got, "[redacted]", "\x00\x00\x00\x00"), secret) &&
			!strings.Contains(secret, "\x00") {
			t.Errorf("%q is left in %q", secret, got)
		}
		if n := r.begun(text); n < 0 || n > len(text) {
			t.Error(fmt.Sprint(n, " bytes of ", len(text)))
		}
	})
}
