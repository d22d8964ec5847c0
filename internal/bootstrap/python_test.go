//go:build unix

package bootstrap

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// withPython puts this machine's python3 on the node. It skips the test if that python3 cannot make
// an environment.
func withPython(t *testing.T, n *localNode) {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import venv, ensurepip, sys; print(sys.executable)").Output()
	if err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_PYTHON") != "" {
			t.Fatal("no python3 with venv and ensurepip on this machine, and GPUTRAIN_REQUIRE_PYTHON is set: install python3-venv")
		}
		t.Skip("no python3 with venv and ensurepip on this machine: install python3-venv")
	}
	n.also = append(n.also, filepath.Dir(strings.TrimSpace(string(out))))
}

// withBarePython puts this machine's python3 on the node as Debian's comes with pip: without ensurepip. So environments
// are made in a moment, and pip is the one beside them.
func withBarePython(t *testing.T, n *localNode) {
	t.Helper()
	withPython(t, n)
	real := filepath.Join(n.also[len(n.also)-1], "python3")
	n.also = n.also[:len(n.also)-1]
	n.program("python3", `case "$2" in *ensurepip*) exit 1 ;; esac; exec '`+real+`' "$@"`)
}

// wheel writes a package of one module to a folder for pip's --find-links.
func wheel(t *testing.T, name, version string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := os.Create(filepath.Join(dir, name+"-"+version+"-py3-none-any.whl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	info := name + "-" + version + ".dist-info/"
	for _, file := range [][2]string{
		{name + ".py", "version = '" + version + "'\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", name + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	} {
		w, err := z.Create(file[0])
		if err == nil {
			_, err = w.Write([]byte(file[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func offline(links string) map[string]string {
	return map[string]string{"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": links, "UV_OFFLINE": "1"}
}

// This uses a real environment, a real pip, and a package from a folder.
func TestPipForReal(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it makes virtual environments")
	}
	n := newNode(t)
	withPython(t, n)
	img := Image{Pip: []string{"tinydist==1.5"}, Env: offline(wheel(t, "tinydist", "1.5")), Setup: []string{"python -c 'import tinydist'"}}
	boot(t, n, img, "python done", "pip done", "setup 1/1 done")
	if got := n.sh("python -c 'import tinydist; print(tinydist.version)'"); got != "1.5" {
		t.Errorf("a task imports version %q", got)
	}
	venv := n.sh(`echo "$VIRTUAL_ENV"`)
	if got := n.sh("command -v python"); got != venv+"/bin/python" || !strings.HasPrefix(venv, n.facts.CacheDir+"/venv-") {
		t.Errorf("python is %s, VIRTUAL_ENV %s", got, venv)
	}

	n.SetBase(nil, nil) // another pool on the same node
	boot(t, n, img, "python cached", "pip cached", "setup 1/1 cached")
	if got := n.sh(`echo "$VIRTUAL_ENV"`); got != venv {
		t.Errorf("the cached environment is %s, want %s", got, venv)
	}

	// A variable such as a learning rate does not change the environment's key.
	img.Env["LEARNING_RATE"] = "0.1"
	img.Setup = nil
	boot(t, n, img, "python cached", "pip cached")

	// The system's python was upgraded, which broke the environment's.
	if err := os.Remove(filepath.Join(venv, "bin", "python")); err != nil {
		t.Fatal(err)
	}
	boot(t, n, img, "python done", "pip done")
	n.sh("python -c 'import tinydist'")
}

func TestPipFailureLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it makes environments with pip twice")
	}
	n := newNode(t)
	withPython(t, n)
	img := Image{Pip: []string{"no-such-dist"}, Env: offline(t.TempDir())}
	err := bootFails(t, n, img)
	if err.Phase != "pip" || err.ExitCode == 0 || !strings.Contains(strings.Join(err.Tail, "\n"), "no-such-dist") {
		t.Errorf("phase %q, exit code %d, tail %q", err.Phase, err.ExitCode, err.Tail)
	}
	if left, _ := filepath.Glob(filepath.Join(n.facts.CacheDir, "venv-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if again := bootFails(t, n, img); again.Phase != "pip" {
		t.Errorf("the second time %q failed, want pip", again.Phase)
	}
}

// Two programs can make the same environment at the same time.
func TestPythonTwiceAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it makes environments with pip twice")
	}
	a := newNode(t)
	withPython(t, a)
	b := newNode(t)
	b.facts.CacheDir, b.also = a.facts.CacheDir, a.also
	img := Image{Pip: []string{"tinydist"}, Env: offline(wheel(t, "tinydist", "2.0"))}
	errs := make(chan error, 2)
	for _, n := range []*localNode{a, b} {
		go func() { errs <- Run(t.Context(), n, noSync, img, Options{release: noUV()}) }()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for _, n := range []*localNode{a, b} {
		n.sh("python -c 'import tinydist'")
	}
}

// interpreter fakes a python: it knows its version, and makes an environment of itself.
func interpreter(version string) string {
	return `case "$*" in
*version_info*) echo ` + version + ` ;;
*"-m venv"*) for venv; do :; done; mkdir -p "$venv/bin"; cp "$0" "$venv/bin/python" ;;
*--version) echo Python ` + version + ` ;;
esac`
}

// A python can be asked for by its version without uv.
func TestPythonVersion(t *testing.T) {
	for _, tt := range []struct {
		name, version string
		pythons       map[string]string
		want          string // the version in use, or a part of the error
	}{
		{"the node's own", "", map[string]string{"python3": "3.9.2", "python3.12": "3.12.1"}, "Python 3.9.2"},
		{"by its name", "3.12", map[string]string{"python3": "3.9.2", "python3.12": "3.12.1"}, "Python 3.12.1"},
		{"under another name", "3.12", map[string]string{"python3": "3.12.4"}, "Python 3.12.4"},
		{"to the patch", "3.12.1", map[string]string{"python3": "3.12.4", "python3.12": "3.12.1"}, "Python 3.12.1"},
		{"any", "3", map[string]string{"python3": "3.8.0"}, "Python 3.8.0"},
		{"only a longer number", "3.1", map[string]string{"python3": "3.12.4"}, "no Python 3.1 on this node"},
		{"another patch", "3.12.9", map[string]string{"python3.12": "3.12.1"}, "no Python 3.12.9 on this node"},
		{"python 2 alone", "", map[string]string{"python": "2.7.18"}, "no python3 on this node"},
		{"none", "3.12", nil, "install uv, add the package that has python3.12 to Image.Apt"},
		{"none at all", "", nil, "add python3 to Image.Apt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.link("cp")
			for name, version := range tt.pythons {
				n.program(name, interpreter(version))
			}
			img := Image{Python: tt.version}
			if tt.version == "" {
				img.Pip = []string{"numpy"} // or no environment is needed
			}
			if !strings.HasPrefix(tt.want, "Python") {
				if err := bootFails(t, n, img); err.Phase != "python" || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %q, want one with %q", err, tt.want)
				}
				return
			}
			want := []string{"python done"}
			if len(img.Pip) > 0 {
				want = append(want, "pip done")
			}
			boot(t, n, img, want...)
			if got := n.sh("python --version"); got != tt.want {
				t.Errorf("%s is in use, want %s", got, tt.want)
			}
		})
	}
}

// Debian's python3 comes without ensurepip.
func TestPythonWithoutEnsurepip(t *testing.T) {
	const lacks = `case "$*" in
*version_info*) echo 3.11.2 ;;
*ensurepip* | *"import pip"*) exit 1 ;;
*"-m pip --version"*) [ -e "$state/pip" ] ;;
*"-m venv --without-pip"*) for venv; do :; done; mkdir -p "$venv/bin"; cp "$0" "$venv/bin/python" ;;
*_base_executable*) echo "${0%/*/bin/python}"/beside ;;
esac`
	img := Image{Pip: []string{"numpy"}}
	t.Run("nor pip", func(t *testing.T) {
		n := newNode(t)
		n.program("python3", lacks)
		if err := bootFails(t, n, img); !strings.Contains(err.Error(), "add python3-venv to Image.Apt on Debian") {
			t.Errorf("error %q", err)
		}
	})
	t.Run("but no pip is wanted", func(t *testing.T) {
		n := newNode(t)
		n.link("cp")
		n.program("python3", lacks)
		boot(t, n, Image{Python: "3.11"}, "python done")
	})
	t.Run("but pip", func(t *testing.T) {
		n := newNode(t)
		n.link("cp")
		n.program("python3", lacks)
		n.program("beside", "")
		n.sh(`mkdir -p "` + n.facts.CacheDir + `"; touch "` + n.state() + `/pip"; mv "` + n.bin + `/beside" "` + n.facts.CacheDir + `/beside"`)
		boot(t, n, img, "python done", "pip done")
		calls := n.calls()
		if last := calls[len(calls)-1]; !strings.HasPrefix(last, "beside -m pip --python ") || !strings.HasSuffix(last, "-- numpy") {
			t.Errorf("last call %q", last)
		}
	})
	t.Run("but virtualenv", func(t *testing.T) {
		n := newNode(t)
		n.link("cp")
		n.program("python3", lacks)
		n.program("virtualenv", `for venv; do :; done; mkdir -p "$venv/bin"; cp "`+n.bin+`/python3" "$venv/bin/python"`)
		boot(t, n, Image{Python: "3.11"}, "python done")
	})
}

// fakeUV fakes uv, as far as it is called here: it has Python 3.11 and can get others.
const fakeUV = `case "$1 $2" in
"--version ") echo "uv ${UV_TEST_VERSION:-0.9.2} (2025-10-10)" ;;
"python find") [ "$3" = 3.11 ] ;;
"python install") ;;
"venv "*)
	case "$*" in *--seed*) [ -z "$NO_INDEX" ] || exit 2 ;; esac
	for venv; do :; done
	mkdir -p "$venv/bin"
	printf '#!/bin/sh\n' >"$venv/bin/python"
	chmod +x "$venv/bin/python" ;;
"pip install") echo "index=$UV_DEFAULT_INDEX extra=$UV_EXTRA_INDEX_URL links=$UV_FIND_LINKS" ;;
esac`

func TestUV(t *testing.T) {
	n := newNode(t)
	n.link("chmod")
	n.program("uv", fakeUV)
	n.program("python3", "exit 1") // not to be used
	img := Image{
		Python: "3.12", Pip: []string{"torch==2.4.0", "numpy>=2,<3"}, PipIndexes: []string{"https://download.pytorch.org/whl/cu124"},
		Env: map[string]string{"PIP_INDEX_URL": "https://user:hunter2@pypi.example/simple", "PIP_FIND_LINKS": "/a /b"},
	}
	out := boot(t, n, img, "python done", "pip done")
	if want := "index=https://user:hunter2@pypi.example/simple extra= links=/a,/b"; !strings.Contains(out, want) {
		t.Errorf("output %q: uv does not know what Env says to pip", out)
	}
	venv := n.sh(`echo "$VIRTUAL_ENV"`)
	want := []string{
		"uv --version", "uv python find 3.12", "uv python install 3.12",
		"uv venv --python 3.12 --seed " + venv,
		"uv pip install --python " + venv + "/bin/python --index-strategy unsafe-best-match" +
			" --extra-index-url https://download.pytorch.org/whl/cu124 -- torch==2.4.0 numpy>=2,<3",
	}
	if calls := n.calls(); !slices.Equal(calls, want) {
		t.Errorf("calls %q\nwant  %q", calls, want)
	}
	boot(t, n, img, "python cached", "pip cached")

	// Without an index there is no pip to seed the environment with. uv does not need one.
	boot(t, n, Image{Python: "3.11", Env: map[string]string{"NO_INDEX": "1"}}, "python done")
	n.SetBase(nil, nil)
	boot(t, n, Image{Python: "3.11"}, "python cached")
}

func TestPipArguments(t *testing.T) {
	n := newNode(t)
	n.link("cp")
	n.program("python3", `case "$*" in
*version_info*) echo 3.11.2 ;;
*"-m venv"*) for venv; do :; done; mkdir -p "$venv/bin"; cp "$0" "$venv/bin/python" ;;
esac`)
	img := Image{
		Pip:        []string{"torch==2.4.0", "tiny[extra] @ https://example.com/tiny $x`y`.whl"},
		PipIndexes: []string{"https://one.example/simple", "https://two.example/simple"},
	}
	boot(t, n, img, "python done", "pip done")
	want := "python3 -m pip install --disable-pip-version-check --no-input --progress-bar off" +
		" --extra-index-url https://one.example/simple --extra-index-url https://two.example/simple" +
		" -- torch==2.4.0 tiny[extra] @ https://example.com/tiny $x`y`.whl"
	if calls := n.calls(); !slices.Contains(calls, want) {
		t.Errorf("calls %q\nwant  %q", calls, want)
	}
}
