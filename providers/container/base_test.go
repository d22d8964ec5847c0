//go:build unix

package container

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

// A shelf is a fake engine. Its images are files, and it records its calls.
type shelf struct {
	t   *testing.T
	dir string
}

// newShelf installs a fake docker with these images. pull is the shell script of a pull of
// image $1.
func newShelf(t *testing.T, pull string, images ...string) *shelf {
	s := &shelf{t, t.TempDir()}
	for _, image := range images {
		s.add(image)
	}
	script := `#!/bin/sh
cd ` + s.dir + `
echo "$*" >>calls
there() { [ -e "images/$(echo "$1" | tr / _)" ]; }
pull() { ` + pull + `; }
case "$1 $2" in
"--version ") echo 'Docker version 28.0.0, build fake' ;;
"info --format") echo '{"ID":"fake","NCPU":2,"MemTotal":1}' ;;
"info ") ;;
"context inspect") echo '[{"Endpoints":{"docker":{"Host":"unix:///x"}}}]' ;;
"image inspect")
	for last; do :; done
	there "$last" || { echo "Error: No such image: $last" >&2; exit 1; }
	if [ "$3" = -f ]; then cat "images/$(echo "$last" | tr / _)"; exit; fi
	echo '[{"Id":"sha256:'"$last"'","Architecture":"amd64"}]' ;;
"image ls") cat list ;;
"image rm") ;;
"pull "*) pull "$2" ;;
"load -i") cp "$3" "images/gputrain-debian:bookworm" ;;
*) echo "what is $*?" >&2; exit 1 ;;
esac
`
	if err := errors.Join(os.MkdirAll(filepath.Join(s.dir, "images"), 0o700), os.WriteFile(s.engine(), []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shelf) engine() string { return filepath.Join(s.dir, "docker") }

// list sets the engine's output of a list of images.
func (s *shelf) list(text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "list"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shelf) add(image string) {
	s.t.Helper()
	path := filepath.Join(s.dir, "images", strings.ReplaceAll(image, "/", "_"))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
		s.t.Fatal(err)
	}
}

// count returns the number of calls that begin with a text.
func (s *shelf) count(call string) (n int) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, call) {
			n++
		}
	}
	return n
}

const (
	pullWorks = `: >"images/$1"`
	pullFails = `echo "Error: no such host" >&2; exit 1`
)

// Without Config.Image, nodes start from Debian's own image if the engine has it or can pull
// it, and otherwise from HomeMadeImage.
func TestDefaultImage(t *testing.T) {
	for name, tt := range map[string]struct {
		pull   string
		images []string
		want   string
		pulls  int
	}{
		"here":                        {pullFails, []string{DefaultImage}, DefaultImage, 0},
		"both are here":               {pullFails, []string{DefaultImage, HomeMadeImage}, DefaultImage, 0},
		"pulled":                      {pullWorks, nil, DefaultImage, 1},
		"pulled beside the home-made": {pullWorks, []string{HomeMadeImage}, DefaultImage, 1},
		"home-made, no registry":      {pullFails, []string{HomeMadeImage}, HomeMadeImage, 1},
		"neither":                     {pullFails, nil, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t, tt.pull, tt.images...)
			for range 3 { // pools, one after another: a registry that does not answer is asked once
				d, err := Config{Binary: s.engine()}.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got, err := d.(*containerDriver).images.baseImage(t.Context())
				if tt.want == "" {
					e, ok := errors.AsType[*driver.Error](err)
					if !ok || !errors.Is(err, driver.ErrNotFound) || !strings.Contains(e.Hint, "scripts/container-image") || !strings.Contains(err.Error(), "no such host") {
						t.Fatalf("got %+v, %v", got, err)
					}
					continue
				}
				if err != nil || got.name != tt.want || got.id != "sha256:"+tt.want {
					t.Fatalf("got %+v, %v", got, err)
				}
			}
			if got := s.count("pull " + DefaultImage); got != tt.pulls {
				t.Errorf("%d pulls, want %d", got, tt.pulls)
			}
		})
	}
}

// An image that the user names has no substitute.
func TestNamedImageHasNoSubstitute(t *testing.T) {
	s := newShelf(t, pullFails, HomeMadeImage)
	d, err := Config{Binary: s.engine(), Image: DefaultImage}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.(*containerDriver).images.baseImage(t.Context()); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("got %+v, %v", got, err)
	}
}
