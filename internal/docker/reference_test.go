package docker

import (
	"strings"
	"testing"
)

const someDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParseReference(t *testing.T) {
	for text, want := range map[string]struct{ text, registry, canonical string }{
		"debian":                               {"debian:latest", "docker.io", "docker.io/library/debian"},
		"debian:12":                            {"debian:12", "docker.io", "docker.io/library/debian"},
		"pytorch/pytorch:2.9.0-cuda12.9":       {"pytorch/pytorch:2.9.0-cuda12.9", "docker.io", "docker.io/pytorch/pytorch"},
		"docker.io/library/debian:12":          {"docker.io/library/debian:12", "docker.io", "docker.io/library/debian"},
		"index.docker.io/debian":               {"index.docker.io/debian:latest", "docker.io", "docker.io/library/debian"},
		"localhost/a_b/c__d:x":                 {"localhost/a_b/c__d:x", "localhost", "localhost/a_b/c__d"},
		"127.0.0.1:5000/a":                     {"127.0.0.1:5000/a:latest", "127.0.0.1:5000", "127.0.0.1:5000/a"},
		"ghcr.io/team/train@" + someDigest:     {"ghcr.io/team/train@" + someDigest, "ghcr.io", "ghcr.io/team/train"},
		"ghcr.io/team/train:2.1@" + someDigest: {"ghcr.io/team/train@" + someDigest, "ghcr.io", "ghcr.io/team/train"},
		"[::1]:5000/a:b":                       {"[::1]:5000/a:b", "[::1]:5000", "[::1]:5000/a"},
	} {
		got, err := ParseReference(text)
		if err != nil || got.String() != want.text || got.Registry() != want.registry || got.canonical() != want.canonical {
			t.Errorf("%s is %v of %s, %s: %v", text, got, got.Registry(), got.canonical(), err)
		}
	}
	for _, text := range []string{
		"", ":", "@", "a b", "-a", "--help", "A", "a:", "a:-x", "a@sha256:1", "a//b", "/a", "a/", "a;b", "a$(b)", "a\nb", "a.b:x/c", "docker.io/", "a@" + someDigest + "x",
		strings.Repeat("a", 256), "https://ghcr.io/a", "a\x00", "-a.b/c",
	} {
		if got, err := ParseReference(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func TestImage(t *testing.T) {
	other := strings.Replace(someDigest, "0", "1", 1)
	for _, want := range []Image{{ID: someDigest}, {ID: other, Digest: someDigest}} {
		if got, err := ParseImage(want.String()); err != nil || got != want {
			t.Errorf("%v becomes %v, %v", want, got, err)
		}
	}
	for _, text := range []string{"", "x", someDigest + "@", "@" + someDigest} {
		if got, err := ParseImage(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	if a, b := (Image{someDigest, other}), (Image{other, other}); !a.is(b) || a.is(Image{ID: "x"}) || (Image{ID: "y"}).is(Image{ID: "x"}) {
		t.Error("images are confused")
	}
}

// An accepted name is one word for a shell, no option, and accepted again in the form in which it is used.
func FuzzReference(f *testing.F) {
	for _, text := range []string{"debian", "a.b:1/c/d:e", "a@" + someDigest, "[::1]:5/a", "-", "a:b:c", "A/b", "é"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseReference(text)
		if err != nil {
			return
		}
		used := r.String()
		if strings.ContainsAny(used, " \t\n'\"\\$`;&|<>(){}*?!#~\x00") || strings.HasPrefix(used, "-") {
			t.Errorf("%q is used as %q", text, used)
		}
		again, err := ParseReference(used)
		if err != nil || again.String() != used || again.canonical() != r.canonical() {
			t.Errorf("%q is used as %q, which is %+v, %v", text, used, again, err)
		}
	})
}
