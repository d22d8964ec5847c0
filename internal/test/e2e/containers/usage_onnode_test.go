package containers

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/usagetest"
)

// oldPython is a program in uv's place that makes the environment of any version with the node's own python3: no release of
// Python can be fetched here.
const oldPython = `#!/bin/sh
case $1 in
--version) echo "uv 9.9.9" ;;
python) ;;
venv) for folder; do :; done; exec python3 -m venv --without-pip "$folder" ;;
pip) echo "$@" ;;
*) exit 2 ;;
esac
`

// The usage program onnode runs to its end, though it has no TensorBoard to reach, and leaves nothing behind unless it is
// told to.
func TestUsageOnNode(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts many containers")
	}
	program := usagetest.Build(t, "onnode")
	e2etest.NeedDocker(t)
	docker, err := exec.LookPath("docker")
	if err != nil {
		t.Skip("the engine is not docker, which the test wraps to give its containers a uv")
	}
	bin := t.TempDir()
	uv := write(t, bin, "uv", oldPython)
	write(t, bin, "docker", `#!/bin/sh
if [ "$1" = create ]; then shift; set -- create -v `+uv+`:/usr/local/bin/uv:ro "$@"; fi
exec `+docker+` "$@"
`)
	if err := os.WriteFile(filepath.Join(program.Dir, "requirements.txt"), []byte("# none\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	out, errOut, err := program.Run(t, []string{"HF_TOKEN=hf-4f1c2a9e77"})
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errOut)
	}
	for _, want := range []string{`(?m)^true <nil>$`, `(?m)^3 \S+ \[.*result\.txt`, `(?m)^task 7 on node \d: exit code 1`, `(?m)^http://127\.0\.0\.1:\d+$`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("the output does not match %s:\n%s%s", want, out, errOut)
		}
	}
	if strings.Contains(out+errOut, "hf-4f1c2a9e77") {
		t.Errorf("the output has the secret:\n%s%s", out, errOut)
	}
	if _, err := os.Stat(filepath.Join(program.Dir, "digits.ssh")); !os.IsNotExist(err) {
		t.Errorf("the SSH configuration is left behind: %v", err)
	}
}

// write makes an executable file and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
