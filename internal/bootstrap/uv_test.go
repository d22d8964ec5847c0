//go:build unix

package bootstrap

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/uvtest"
)

// bareNode returns a node with a Python that knows nothing but its version and makes environments of itself, and with
// programs that can unpack and check a file, but not fetch one.
func bareNode(t *testing.T) *localNode {
	n := newNode(t)
	for _, name := range []string{"chmod", "cp", "gzip", "ls", "sha256sum", "tar"} {
		n.link(name)
	}
	n.program("python3", interpreter("3.11.2"))
	return n
}

// fetching returns Options that use a release.
func (d *diary) fetching(s *uvtest.Server) Options {
	opts := d.options()
	opts.release = s.Release
	return opts
}

// Every program that can download is good for it. A node fetches uv once, for all images.
func TestUVIsFetched(t *testing.T) {
	for _, program := range []string{"curl", "wget", "python3", "perl", "busybox wget", "only busybox"} {
		t.Run(program, func(t *testing.T) {
			s := released(t)
			n := bareNode(t)
			if err := os.Remove(filepath.Join(n.bin, "python3")); err != nil { // uv brings one
				t.Fatal(err)
			}
			switch program {
			case "busybox wget":
				n.program("wget", `exec '`+busybox(t)+`' wget "$@"`)
			case "only busybox": // as Alpine has it
				for _, name := range slices.Concat(tools, []string{"chmod", "cp", "gzip", "ls", "printf", "sha256sum", "tar", "wget"}) {
					os.Remove(filepath.Join(n.bin, name))
					if err := os.Symlink(busybox(t), filepath.Join(n.bin, name)); err != nil {
						t.Fatal(err)
					}
				}
			case "python3":
				n.also = append(n.also, realPython(t))
			default:
				n.link(program)
			}
			img := Image{Python: "3.11", Env: map[string]string{"UV_PYTHON_INSTALL_MIRROR": "https://mirror.example"}}
			var d diary
			if err := Run(t.Context(), n, noSync, img, d.fetching(s)); err != nil {
				t.Fatal(err)
			}
			if got := n.calls(); !slices.Contains(got, "uv python find 3.11") {
				t.Errorf("calls %q", got)
			}
			if got := s.Requests(); got != 1 {
				t.Errorf("%d requests", got)
			}
			if left := n.sh(`cd "` + n.facts.CacheDir + `"; ls uv; ls`); strings.Contains(left, ".part") || strings.Contains(left, "unfinished") {
				t.Errorf("left: %s", left)
			}
			img.Python = "3.12"
			if err := Run(t.Context(), n, noSync, img, d.fetching(s)); err != nil || s.Requests() != 0 {
				t.Errorf("the second image: %v", err)
			}
		})
	}
}

// busybox returns the path of busybox.
func busybox(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("this machine has no busybox")
	}
	return path
}

// realPython returns the folder of this machine's python3.
func realPython(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skip("this machine has no python3")
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}

// The password of a mirror, which is a secret, is in no argument and no output.
func TestUVFromAPrivateMirror(t *testing.T) {
	const password = "hunter2isAsecret"
	s := released(t)
	lines := 0
	s.Answer = func(number int, w http.ResponseWriter, _ []byte) bool {
		names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range names {
			line, err := os.ReadFile(name)
			if err == nil && strings.Contains(string(line), password) {
				t.Errorf("a process has the arguments %q", line)
			}
			lines += len(line)
		}
		if number == 1 {
			w.Write([]byte("not uv"))
		}
		return number == 1
	}
	n := bareNode(t)
	n.link("curl")
	var d diary
	opts := d.fetching(s)
	opts.Secrets = map[string]string{"UV_INSTALLER_GITHUB_BASE_URL": strings.Replace(s.Release.Base, "://", "://me:"+password+"@", 1)}
	s.Release.Base = "http://127.0.0.1:1"
	if err := Run(t.Context(), n, noSync, Image{Python: "3.11"}, opts); err != nil {
		t.Fatal(err)
	}
	if out := d.output.String(); s.Requests() != 2 || !strings.Contains(out, "what came from a mirror has the SHA-256") || strings.Contains(out, password) {
		t.Errorf("output %s", out)
	}
	if _, err := os.Stat("/proc/self/cmdline"); err == nil && lines == 0 {
		t.Error("no arguments were searched")
	}
}

// Nodes that share one home fetch uv at the same time.
func TestUVTwiceAtOnce(t *testing.T) {
	s := released(t)
	a, b := bareNode(t), bareNode(t)
	b.facts.CacheDir = a.facts.CacheDir
	errs := make(chan error, 2)
	for _, n := range []*localNode{a, b} {
		n.link("curl")
		go func() {
			var d diary
			errs <- Run(t.Context(), n, noSync, Image{Python: "3.11"}, d.fetching(s))
		}()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for _, n := range []*localNode{a, b} {
		if got := n.calls(); !slices.Contains(got, "uv python find 3.11") {
			t.Errorf("calls %q", got)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(a.facts.CacheDir, "uv", "*.part")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// What is not the pinned file is not run, and a download that was cut is repeated.
func TestUVMustBeWhatIsPinned(t *testing.T) {
	evil := "#!/bin/sh\necho evil >>\"$HOME/calls\"\n"
	for name, tt := range map[string]struct {
		answer   func(number int, w http.ResponseWriter, archive []byte) bool
		requests int
		want     string // of the output; nothing means that it is fetched
	}{
		"cut once": {func(number int, w http.ResponseWriter, archive []byte) bool {
			if number == 1 {
				uvtest.Cut(w, archive)
			}
			return false
		}, 2, ""},
		"half of it once": {func(number int, w http.ResponseWriter, archive []byte) bool {
			if number == 1 {
				w.Write(archive[:len(archive)/2])
			}
			return number == 1
		}, 2, ""},
		"another program": {func(_ int, w http.ResponseWriter, _ []byte) bool { w.Write([]byte(evil)); return true }, 6, "and is not used"},
		"not there":       {func(_ int, w http.ResponseWriter, _ []byte) bool { w.WriteHeader(404); return true }, 2, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			s := released(t)
			s.Answer = tt.answer
			n := bareNode(t)
			n.link("curl")
			var d diary
			opts := d.fetching(s)
			opts.Upload = func(context.Context, string, string) error { return errors.New("nothing is good enough to be sent") }
			if err := Run(t.Context(), n, noSync, Image{Python: "3.11"}, opts); err != nil {
				t.Fatal(err)
			}
			calls := n.calls()
			if got := slices.Contains(calls, "uv python find 3.11"); got != (tt.want == "") || slices.Contains(calls, "evil") {
				t.Errorf("calls %q", calls)
			}
			if got := s.Requests(); got != tt.requests { // of the node, and then of this program
				t.Errorf("%d requests, want %d", got, tt.requests)
			}
			if out := d.output.String(); !strings.Contains(out, tt.want) {
				t.Errorf("output %s", out)
			}
			// Without uv the node's own Python is used.
			if got := n.sh("python --version"); tt.want != "" && got != "Python 3.11.2" {
				t.Errorf("%s is in use", got)
			}
		})
	}
}

// sent returns an Upload that copies to this machine.
func sent(count *int) func(context.Context, string, string) error {
	return func(_ context.Context, local, remote string) error {
		*count++
		content, err := os.ReadFile(local)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(remote), 0o755)
		}
		if err == nil {
			err = os.WriteFile(remote, content, 0o755)
		}
		return err
	}
}

// A node that has no way out gets uv from this program, which keeps it.
func TestUVIsSent(t *testing.T) {
	s := released(t)
	uploads := 0
	for i, prepare := range []func(n *localNode, img *Image){
		func(*localNode, *Image) {}, // no program that downloads
		func(n *localNode, img *Image) { // no way to the server
			n.link("curl")
			img.Env = map[string]string{"UV_INSTALLER_GITHUB_BASE_URL": "http://127.0.0.1:1"}
		},
		func(n *localNode, _ *Image) { // no program that unpacks
			n.link("curl")
			n.program("tar", "exit 1")
		},
		func(n *localNode, _ *Image) { // no program that checks
			n.link("curl")
			n.program("sha256sum", "exit 1")
		},
	} {
		n := bareNode(t)
		img := Image{Python: "3.11"}
		prepare(n, &img)
		var d diary
		opts := d.fetching(s)
		opts.Upload = sent(&uploads)
		if err := Run(t.Context(), n, noSync, img, opts); err != nil {
			t.Fatal(err)
		}
		if got := n.calls(); !slices.Contains(got, "uv python find 3.11") || uploads != i+1 {
			t.Errorf("node %d: calls %q, %d uploads", i, got, uploads)
		}
		if !strings.Contains(d.output.String(), "so it is sent") {
			t.Errorf("output %q", d.output.String())
		}
		for j, id := range n.ids {
			if slices.Contains(n.ids[:j], id) {
				t.Errorf("attempt ids %q", n.ids)
			}
		}
	}
	if got := s.Requests(); got != 2 { // one of this program, and one of the node that could not unpack
		t.Errorf("%d requests", got)
	}
}

// If uv cannot be had, the error says why, there and here, and what to do.
func TestNoUV(t *testing.T) {
	closed := released(t)
	closed.Release.Base = "http://127.0.0.1:1"
	project := newProject(t, "tinydist", "1.0")
	for name, tt := range map[string]struct {
		img    Image
		upload bool
		want   []string
	}{
		"no way out of either": {Image{Python: "3.12"}, true, []string{
			"without uv: the node cannot fetch it: it has no curl, wget or python3\nnor can it be sent: uv 9.9.9 from http://127.0.0.1:1/",
			"\nno Python 3.12 on this node, and no uv to get it: install uv, add the package that has python3.12 to Image.Apt"}},
		"no way to send": {Image{Python: "3.12"}, false, []string{"nor can it be sent: no file can be copied there now"}},
		"offline":        {Image{Python: "3.12", Env: map[string]string{"UV_OFFLINE": "1"}}, true, []string{"without uv: UV_OFFLINE is set\nno Python"}},
		"a locked project": {Image{Requirements: project}, true, []string{
			"whose lock only uv reads", "uv export --no-emit-project --output-file requirements.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.link("sha256sum")
			n.link("ls")
			var d diary
			opts := d.fetching(closed)
			if tt.upload {
				opts.Upload = func(context.Context, string, string) error { t.Error("nothing is to be sent"); return nil }
			}
			err := Run(t.Context(), n, noSync, tt.img, opts)
			var failed *Error
			if !errors.As(err, &failed) || failed.Phase != "python" {
				t.Fatalf("error %v", err)
			}
			text := d.output.String()
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("output %q, want %q in it", text, want)
				}
			}
			if left := n.sh(`ls "` + n.facts.CacheDir + `"`); strings.Contains(left, "venv-") {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// The node's own uv is used, unless it is too old or does not run.
func TestUVOfTheNode(t *testing.T) {
	for version, own := range map[string]bool{"0.9.2": true, "0.5.0": true, "1.0.0": true, "0.4.30": false, "none": false} {
		t.Run(version, func(t *testing.T) {
			s := released(t)
			n := bareNode(t)
			n.link("curl")
			n.program("uv", strings.Replace(fakeUV, "0.9.2", version, 1))
			var d diary
			if err := Run(t.Context(), n, noSync, Image{Python: "3.11"}, d.fetching(s)); err != nil {
				t.Fatal(err)
			}
			if got := s.Requests() == 0; got != own {
				t.Errorf("its own uv is used: %v", got)
			}
		})
	}
}

// A Python that the node lacks is uv's, and is kept with the cache.
func TestPythonByUV(t *testing.T) {
	s := released(t)
	n := newNode(t) // without any Python
	for _, name := range []string{"chmod", "cp", "ls"} {
		n.link(name)
	}
	uploads := 0
	run := func(img Image) (*diary, error) {
		var d diary
		opts := d.fetching(s)
		opts.Upload = sent(&uploads)
		return &d, Run(t.Context(), n, noSync, img, opts)
	}
	d, err := run(Image{Python: "3.12"})
	if err == nil || !strings.Contains(d.output.String(), "UV_PYTHON_INSTALL_MIRROR in Image.Env") || !strings.Contains(err.Error(), "Failed to download Python 3.12") {
		t.Errorf("error %v\n%s", err, d.output.String())
	}
	mirror := map[string]string{"UV_PYTHON_INSTALL_MIRROR": "https://mirror.example"}
	if d, err := run(Image{Python: "3.12", Env: mirror}); err != nil {
		t.Fatalf("%v\n%s", err, d.output.String())
	}
	if got := n.sh("python --version"); got != "Python 3.12" {
		t.Errorf("%s is in use", got)
	}
	if got := n.sh(`ls "` + n.facts.CacheDir + `/uv/python"; ls -A "$HOME"`); strings.Contains(got, ".local") || !strings.Contains(got, "3.12") {
		t.Errorf("the folders have %q", got)
	}
	if uploads != 1 {
		t.Errorf("%d uploads", uploads)
	}
}

// Nothing of a phase ends before its time only because uv is being sent.
func TestSendingUVHasALimit(t *testing.T) {
	s := released(t)
	n := bareNode(t)
	opts := (&diary{}).fetching(s)
	ctx, cancel := context.WithCancel(t.Context())
	opts.Upload = func(ctx context.Context, _, _ string) error {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline")
		}
		cancel()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	opts.Output = func(string) io.Writer { return io.Discard }
	if err := Run(ctx, n, noSync, Image{Python: "3.11"}, opts); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
