package hosts

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/uv"
	"github.com/gputrain/gputrain/providers/ssh"
)

// keptUV does what uv does for an Image that only has a version of Python.
const keptUV = `#!/bin/sh
case "$1 $2" in
"--version ") echo "uv 1.2.3" ;;
"python find") ;;
"venv "*)
	for venv; do :; done
	mkdir -p "$venv/bin"
	printf '#!/bin/sh\necho "Python of uv"\n' >"$venv/bin/python"
	chmod +x "$venv/bin/python" ;;
esac
`

// A host without a way out gets the uv that this user's programs have kept. KeepCache leaves it there for the next pool,
// and otherwise nothing of it is left.
func TestUVIsSentToHosts(t *testing.T) {
	if path, err := exec.LookPath("uv"); err == nil {
		t.Skipf("this machine has a uv of its own, %s, which the host would use", path)
	}
	release := uv.Pinned()
	build, ok := release.Build("linux", runtime.GOARCH)
	if !ok {
		t.Skip("there is no uv for this machine")
	}
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	kept := fmt.Sprintf("gputrain/uv/%s-%s-%s-%x", release.Version, build.Target, build.SHA256[:16], sha256.Sum256([]byte(keptUV)))
	if err := os.MkdirAll(filepath.Join(cache, "gputrain", "uv"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cache, kept), []byte(keptUV), 0o700); err != nil {
		t.Fatal(err)
	}

	h := e2etest.NewHost(t)
	there := filepath.Join(h.Home, ".gputrain/cache/uv", build.Target+"-"+release.Version, "uv")
	for _, tt := range []struct {
		python    string
		keepCache bool
		sent      bool
	}{{"3.12", true, true}, {"3.13", true, false}, {"3.14", false, false}, {"3.12", false, true}} {
		var shown e2etest.Shown
		pool, err := gputrain.Open(t.Context(), ssh.Config{Hosts: []ssh.Host{h.Host()}, KeepCache: tt.keepCache}, gputrain.Spec{Image: gputrain.Image{
			Python: tt.python, Env: map[string]string{"UV_INSTALLER_GITHUB_BASE_URL": "http://127.0.0.1:1"},
		}}, shown.Option())
		if err != nil {
			t.Fatal(err)
		}
		r, err := pool.Run(gputrain.Cmd("python", "--version"))
		if err != nil || string(r.Stdout) != "Python of uv\n" {
			t.Errorf("got %q, %v", r.Stdout, err)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		if sent := strings.Contains(shown.Out.String(), "so it is sent"); sent != tt.sent {
			t.Errorf("%+v: output %s", tt, shown.Out.String())
		}
		content, err := os.ReadFile(there)
		if tt.keepCache && string(content) != keptUV || !tt.keepCache && !os.IsNotExist(err) {
			t.Errorf("%+v: the host has %q, %v", tt, content, err)
		}
	}
	h.WantAsFound(t)
}
