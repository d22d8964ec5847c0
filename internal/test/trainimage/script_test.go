//go:build unix

package trainimage

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// engine is a program of sh in place of docker. Its image is a file whose text is the label, and each call is a line of
// the file calls.
const engine = `#!/bin/sh
cd "$(dirname "$0")"
echo "$*" | head -n 1 >>calls
case $1 in
image) cat image 2>/dev/null ;;
run) cat >stdin; [ ! -e run-fails ] || { echo "E: no such package"; exit 1; } ;;
commit) printf '%s\n' "$3" | sed 's/.*gputrain.train=//' >image ;;
save) cp image "$3" ;;
load) cp "$3" image ;;
esac
`

// A workshop is a folder with the script, the engine and a cache.
type workshop struct {
	t   *testing.T
	dir string
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	w := &workshop{t, t.TempDir()}
	script, err := os.ReadFile("../../../scripts/train-image")
	if err != nil {
		t.Fatal(err)
	}
	w.write("train-image", string(script))
	w.write("container-image", "#!/bin/sh\necho \"container-image $*\" >>\"$(dirname \"$0\")/calls\"\n")
	w.write("docker", engine)
	return w
}

func (w *workshop) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o777); err != nil {
		w.t.Fatal(err)
	}
}

func (w *workshop) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(w.dir, name))
	return string(data)
}

// run runs the script and returns its output, and the first words of its calls of the engine.
func (w *workshop) run() (output string, calls []string, err error) {
	w.t.Helper()
	os.Remove(filepath.Join(w.dir, "calls"))
	cmd := exec.Command(filepath.Join(w.dir, "train-image"))
	cmd.Env = append(os.Environ(), "CONTAINER_BINARY="+filepath.Join(w.dir, "docker"), "XDG_CACHE_HOME="+w.dir,
		"TMPDIR="+w.dir, "DEBIAN_MIRROR=http://user:it's@mirror.example/debian")
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(w.read("calls")) {
		calls = append(calls, strings.Fields(line)[0])
	}
	return string(out), calls, err
}

// TestScript makes the image once, takes it from the cache after the engine was reset, and makes it anew if its recipe
// has changed.
func TestScript(t *testing.T) {
	w := newWorkshop(t)
	for _, tt := range []struct {
		name, says, calls string
		before            func()
	}{
		{"made", "is ready", "image container-image run commit save rm", func() {}},
		{"there", "is there", "image", func() {}},
		{"the engine was reset", "loading", "image load", func() { os.Remove(filepath.Join(w.dir, "image")) }},
		{"an image from elsewhere", "loading", "image load", func() { w.write("image", "<no value>\n") }},
		{"another recipe", "is ready", "image container-image run commit save rm", func() {
			w.write("container-image", w.read("container-image")+"# another\n")
		}},
	} {
		tt.before()
		out, calls, err := w.run()
		if err != nil || !strings.Contains(out, tt.says) || strings.Join(calls, " ") != tt.calls {
			t.Errorf("%s: %v, calls %q, want %q; output %s", tt.name, err, calls, tt.calls, out)
		}
		if all := w.read("calls"); strings.Contains(all, "it's") {
			t.Errorf("%s: the mirror's password is in an argument: %s", tt.name, all)
		}
	}
	if got := w.read("stdin"); !strings.HasPrefix(got, `mirror='http://user:it'\''s@mirror.example/debian'`+"\n") {
		t.Errorf("the container was told %q", got)
	}
	archives, _ := filepath.Glob(w.dir + "/gputrain/*")
	if len(archives) != 1 {
		t.Errorf("the cache has %q, want the newest alone", archives)
	}
}

func TestScriptFails(t *testing.T) {
	w := newWorkshop(t)
	w.write("run-fails", "")
	out, _, err := w.run()
	if err == nil || !strings.Contains(out, "no such package") || !strings.Contains(out, "DEBIAN_MIRROR") {
		t.Errorf("got %v, %s", err, out)
	}
	if left, _ := filepath.Glob(w.dir + "/gputrain*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
