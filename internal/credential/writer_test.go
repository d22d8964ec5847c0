package credential

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// redact returns what a redactor writes of a text that comes in pieces of at most so many bytes.
func redact(t *testing.T, environ []string, text string, piece func() int) string {
	t.Helper()
	var out bytes.Buffer
	r := NewWriter(&out, Known(environ))
	for rest := text; rest != ""; {
		n := min(max(piece(), 1), len(rest))
		if _, err := r.Write([]byte(rest[:n])); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// keyText is a private key that is none.
var keyText = "-----BEGIN RSA PRIVATE " + "KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEA7lWqbQHc+/abcdefghijklmnopqrstuvwxyz0123456789AB\n", 5) + "dGhlIGVuZA==\n-----END RSA PRIVATE " + "KEY-----\n"

var environ = []string{"HF_TOKEN=hunter2-hunter2", "ODD_PASSWORD=a\"b<c&d\\e", "TINY_KEY=abc", "PLAIN=not a secret", "MULTI_SECRET=first line of it\nsecond line of it"}

func TestRedaction(t *testing.T) {
	for in, want := range map[string]string{
		"nothing to see: key, token, password":               "nothing to see: key, token, password",
		"my hunter2-hunter2!":                                "my [redacted]!",
		"x aHVudGVyMi1odW50ZXIy y":                           "x [redacted] y",
		"a second line of it b":                              "a [redacted] b",
		"abc stays, not a secret too":                        "abc stays, not a secret too",
		`{"p":"a\"b<c&d\\e"}`:                                `{"p":"[redacted]"}`,
		"<p>a&#34;b&lt;c&amp;d\\e</p>":                       "<p>[redacted]</p>",
		"Authorization: Bearer abc.DEF-123456\nnext":         "Authorization: [redacted]\nnext",
		"-H 'authorization: Basic dXNlcjpwYXNz' -X":          "-H 'authorization: [redacted]' -X",
		"sent bearer abcdefgh12345678, and":                  "sent bearer [redacted], and",
		"the bearer of news; basic authentication failed":    "the bearer of news; basic authentication failed",
		"export WANDB_API_KEY=0123abcd4567ef":                "export WANDB_API_KEY=[redacted]",
		`{"password": "swordfish!"}`:                         `{"password": "[redacted]"}`,
		`{"dbPassword":"swordfish!"}`:                        `{"dbPassword":"[redacted]"}`,
		`{\"db_password\":\"swordfish\"}`:                    `{\"db_password\":\"[redacted]\"}`,
		"api_token=&#34;swordfish&#34;":                      "api_token=&#34;[redacted]&#34;",
		`{"loss_token":0.12345678901234567,"x":1}`:           `{"loss_token":0.12345678901234567,"x":1}`,
		`{"a_secret":null}`:                                  `{"a_secret":null}`,
		"tool --api-key abcdef123 --token=xyz789abc run":     "tool --api-key [redacted] --token=[redacted] run",
		"PAD_TOKEN=[unused1], host_key: SHA256:abcdefghi":    "PAD_TOKEN=[unused1], host_key: SHA256:abcdefghi",
		"git clone https" + "://joe:pa55w0rd@host/x":         "git clone https" + "://joe:[redacted]@host/x",
		"hf_AbCdEfGhIjKlMnOp1234 ghp_0123456789abcdefABCD":   "[redacted] [redacted]",
		"key AKIA0123456789ABCDEF in asia-northeast1-docker": "key [redacted] in asia-northeast1-docker",
	} {
		if got := redact(t, environ, in, func() int { return len(in) }); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestPrivateKeys(t *testing.T) {
	inJSON, err := json.Marshal(map[string]string{"text": "before\n" + keyText + "after the longestwordthatisnotakey"})
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for line := range strings.Lines(keyText) {
		fmt.Fprintf(&lines, `{"time":"2026-03-04T12:00:00Z","text":"%s"}`+"\n", strings.TrimSpace(line))
	}
	for _, text := range []string{keyText, string(inJSON), lines.String()} {
		got := redact(t, nil, text, func() int { return 7 })
		if strings.Contains(got, "MIIEow") || strings.Contains(got, "0123456789AB") || strings.Contains(got, "dGhlIGVuZA") || !strings.Contains(got, Redacted) || !strings.Contains(got, "-----END") {
			t.Errorf("%q becomes %q", text, got)
		}
		for line := range strings.Lines(got) {
			if strings.HasPrefix(line, "{") && !json.Valid([]byte(line)) {
				t.Errorf("no JSON: %q", line)
			}
		}
		if strings.Contains(text, "after") && !strings.Contains(got, "after the longestwordthatisnotakey") {
			t.Errorf("too much is redacted: %q", got)
		}
	}
}

// Whatever the pieces are in which a text comes, no part of a secret is left, and the result is the same.
func TestRedactionAcrossWrites(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	secrets := []string{"hunter2-hunter2", "Authorization: Bearer abc.DEF-123456\n", "MY_API_KEY=s3cr3tv4lue ", keyText, "hf_AbCdEfGhIjKlMnOp1234 ", "docker login -u joe " + strings.Repeat("x ", 70) + "-p zanderfisch\n"}
	for range 10 {
		var text strings.Builder
		for text.Len() < 200_000 {
			text.WriteString(strings.Repeat("harmless words\n", random.IntN(600)) + secrets[random.IntN(len(secrets))])
		}
		for _, most := range []int{1 << 20, 50_000, 40} {
			got := redact(t, environ, text.String(), func() int { return 1 + random.IntN(most) })
			for _, part := range []string{"hunter2", "abc.DEF", "s3cr3t", "MIIEow", "0123456789AB", "AbCdEfGh", "zanderfisch"} {
				if i := strings.Index(got, part); i >= 0 {
					t.Fatalf("%q is left: %q", part, got[max(i-60, 0):min(i+60, len(got))])
				}
			}
			if want := strings.Count(text.String(), "harmless"); strings.Count(got, "harmless") != want {
				t.Fatalf("%d of %d harmless words", strings.Count(got, "harmless"), want)
			}
		}
	}
}

func TestLongSecrets(t *testing.T) {
	long := strings.Repeat("0aB-", 50_000)
	for _, text := range []string{"Bearer " + long + " end", "A_TOKEN=" + long + "\nend"} {
		got := redact(t, nil, text, func() int { return 1000 })
		if strings.Contains(got, "0aB-") || !strings.HasSuffix(got, "end") || len(got) > 200 {
			t.Errorf("%d bytes are left: %.100q", len(got), got)
		}
	}
}

func FuzzRedaction(f *testing.F) {
	f.Add("a hunter2-hunter2 b", "Bearer x1234567890", 3)
	f.Add(keyText, "MY_KEY='", 1)
	f.Fuzz(func(t *testing.T, before, after string, piece int) {
		text := before + " hunter2-hunter2\n" + after
		got := redact(t, environ, text, func() int { return piece%1000 + 1 })
		if strings.Contains(got, "hunter2-hunter2") {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}
