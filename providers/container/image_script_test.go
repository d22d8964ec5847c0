//go:build unix

package container

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// script makes the default image.
var script = filepath.Join("..", "..", "scripts", "container-image")

// makeImage runs the script with an engine and a cached image, and returns its output. A pull may take so many seconds.
func makeImage(t *testing.T, s *shelf, seconds int, args ...string) string {
	t.Helper()
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(string(text) + "bookworm " + runtime.GOARCH + "\n"))
	recipe := hex.EncodeToString(sum[:])
	cache := filepath.Join(s.dir, "cache", "gputrain")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	// In the fake, an image's content is the text of its label.
	if err := os.WriteFile(filepath.Join(cache, "image-"+recipe+".tar"), []byte(recipe+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), "CONTAINER_BINARY="+s.engine(), "XDG_CACHE_HOME="+filepath.Dir(cache), "PULL_SECONDS="+strconv.Itoa(seconds))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// The script pulls the official image. If that fails, it makes an image under another name,
// never under the official one.
func TestContainerImageScript(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("the script has another word for this processor")
	}
	for name, tt := range map[string]struct {
		pull        string
		images      []string
		args        []string
		says        string
		pulls, made int
	}{
		"pulled":             {pullWorks, nil, nil, DefaultImage + " is ready", 1, 0},
		"there":              {pullFails, []string{DefaultImage}, nil, DefaultImage + " is there", 0, 0},
		"made":               {pullFails, nil, nil, HomeMadeImage + " is ready", 1, 1},
		"a registry is mute": {"sleep 100", nil, nil, HomeMadeImage + " is ready", 1, 1},
		"the user's own":     {pullFails, []string{HomeMadeImage}, nil, HomeMadeImage + " is there", 0, 0},
		"forced":             {pullWorks, []string{DefaultImage, HomeMadeImage}, []string{"--force"}, HomeMadeImage + " is ready", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, seconds := newShelf(t, tt.pull, tt.images...), 100
			if name == "a registry is mute" {
				seconds = 1
			}
			said := makeImage(t, s, seconds, tt.args...)
			if !strings.Contains(said, tt.says) {
				t.Errorf("it says %s", said)
			}
			if pulls, made := s.count("pull "), s.count("load "); pulls != tt.pulls || made != tt.made {
				t.Errorf("%d pulls and %d images made, want %d and %d", pulls, made, tt.pulls, tt.made)
			}
			if s.count("tag ") > 0 {
				t.Error("it gave an image another name")
			}
			if tt.made == 0 {
				return
			}
			if said := makeImage(t, s, seconds, tt.args...); s.count("load ") > 1 || !strings.Contains(said, HomeMadeImage+" is there") || s.count("pull ") != tt.pulls {
				t.Errorf("afterwards it says %s", said)
			}
		})
	}
}

// The official image replaces one that an earlier version of the script made under the
// official name. If it cannot be pulled, that one stays.
func TestContainerImageScriptMeetsItsOldImage(t *testing.T) {
	for says, pull := range map[string]string{"left as it is": pullFails, DefaultImage + " is ready": pullWorks} {
		s := newShelf(t, pull)
		if err := os.MkdirAll(filepath.Join(s.dir, "images"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, "images", DefaultImage), []byte("0123456789abcdef\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if said := makeImage(t, s, 100); !strings.Contains(said, says) || s.count("pull ") != 1 || s.count("load ") != 0 {
			t.Errorf("it says %s", said)
		}
	}
}

// The script and the provider use the same names of images.
func TestImagesAreTheScripts(t *testing.T) {
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"\nofficial=" + DefaultImage + " ", "\nimage=" + HomeMadeImage + " "} {
		if !strings.Contains(string(text), line) {
			t.Errorf("scripts/container-image has no line %q", line)
		}
	}
}
