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

// A digest that the user has fixed stays, whatever the first node says of its image: the others pull by that. Of a tag the
// first node chooses, among the images of that name alone.
func TestNodeChoosesNoOtherImage(t *testing.T) {
	hex := func(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }
	for _, tt := range []struct {
		named, says, want string
	}{
		{"acme/train@" + hex("a"), "acme/train@" + hex("b"), hex("a")},
		{"acme/train@" + hex("a"), "acme/train@" + hex("b") + " acme/train@" + hex("a"), hex("a")},
		{"acme/train:1", "acme/train@" + hex("b"), hex("b")},
		{"acme/train:1", "evil/train@" + hex("b"), ""},
		{"acme/train:1", "example.com/acme/train@" + hex("b"), ""},
		{"acme/train:1", "acme/train:2", ""},
	} {
		named, err := ParseReference(tt.named)
		if err != nil {
			t.Fatal(err)
		}
		s := &setup{pool: &Pool{Reference: named}, engine: "docker", named: named}
		if err := s.read([]string{"platform linux/amd64", "image " + hex("c") + " linux/amd64 " + tt.says}); err != nil {
			t.Fatal(err)
		}
		if got := s.pool.pin.agree(s.found.Image); got.Digest != tt.want {
			t.Errorf("%s, of which the node says %s: the others run %q, want %q", tt.named, tt.says, got.Digest, tt.want)
		}
	}
}
