//go:build unix

package bootstrap

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

func sumOf(t *testing.T, dir string) (sum string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	of := sha256.Sum256(content)
	return hex.EncodeToString(of[:])
}

// A real pip installs what a requirements.txt, the files that it includes, and Image.Pip have.
func TestRequirementsForReal(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it makes environments with pip and uv")
	}
	n := newNode(t)
	withBarePython(t, n)
	first, second := wheel(t, "tinydist", "1.5"), wheel(t, "otherdist", "2.0")
	dir := write(t, map[string]string{
		"requirements.txt": "-r sub/more.txt\n-c limits.txt\n",
		"sub/more.txt":     "tinydist==1.5 --hash=sha256:" + sumOf(t, first) + "\n",
		"limits.txt":       "tinydist<2",
	})
	img := Image{
		Requirements: filepath.Join(dir, "requirements.txt"), Pip: []string{"otherdist"}, Env: offline(first + " " + second),
		Setup: []string{"python -c 'import tinydist, otherdist'"},
	}
	boot(t, n, img, "python done", "pip done", "setup 1/1 done")
	boot(t, n, img, "python cached", "pip cached", "setup 1/1 cached")
	if left, _ := filepath.Glob(filepath.Join(n.facts.CacheDir, "*.from")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "more.txt"), []byte("tinydist==1.5 --hash=sha256:"+strings.Repeat("0", 64)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := bootFails(t, n, img); err.Phase != "pip" || !strings.Contains(err.Error(), "HASHES") {
		t.Errorf("error %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(n.facts.CacheDir, "*.from")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Without hashes pip is asked once, so that all versions suit each other. With hashes it is asked twice, by the same
// indexes.
func TestRequirementsArguments(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		pip  []string
		want []string // UV stands for what uv has beside
	}{
		"options that uv does not read in files": {"--pre\n--trusted-host ours.example\nnumpy\n", nil, []string{"-r REQ UV--extra-index-url https://one.example/simple --"}},
		"plain":                                  {"numpy\n", []string{"torch"}, []string{"-r REQ --extra-index-url https://one.example/simple -- torch"}},
		"alone":                                  {"numpy\n", nil, []string{"-r REQ --extra-index-url https://one.example/simple --"}},
		"with hashes":                            {"numpy==1 --hash=sha256:00\n", nil, []string{"--require-hashes -r REQ --extra-index-url https://one.example/simple"}},
		"with hashes, and without":               {"--require-hashes\n", []string{"torch"}, []string{"--require-hashes -r REQ --extra-index-url https://one.example/simple", "--extra-index-url https://one.example/simple -- torch"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, uv := range []bool{false, true} {
				n := newNode(t)
				n.link("cp")
				n.link("chmod")
				n.program("python3", interpreter("3.11.2"))
				head := "python3 -m pip install --disable-pip-version-check --no-input --progress-bar off "
				if uv {
					n.program("uv", fakeUV)
				}
				img := Image{Requirements: filepath.Join(write(t, map[string]string{"r.txt": tt.text}), "r.txt"), Pip: tt.pip, PipIndexes: []string{"https://one.example/simple"}}
				boot(t, n, img, "python done", "pip done")
				venv := n.sh(`echo "$VIRTUAL_ENV"`)
				if uv {
					head = "uv pip install --python " + venv + "/bin/python --index-strategy unsafe-best-match "
				}
				var got []string
				for _, call := range n.calls() {
					if args, ok := strings.CutPrefix(call, head); ok {
						got = append(got, strings.ReplaceAll(args, venv+".from/requirements.txt", "REQ"))
					}
				}
				options := ""
				if uv {
					options = "--pre --trusted-host ours.example "
				}
				var want []string
				for _, call := range tt.want {
					want = append(want, strings.ReplaceAll(call, "UV", options))
				}
				if !slices.Equal(got, want) {
					t.Errorf("uv %v: calls %q, want %q", uv, got, want)
				}
			}
		})
	}
}

// A locked project is synced by uv, without the project itself. uv finds the Python by the project, or is told.
func TestLockedProject(t *testing.T) {
	project := newProject(t, "tinydist", "1.5")
	for _, name := range []string{".python-version", "uv.toml"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(project), name), []byte("3.11\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []string{"", "3.11"} {
		n := newNode(t)
		n.link("chmod")
		n.program("uv", fakeUV+"\ncase $1 in venv | sync) echo \"in ${PWD##*.} as ${UV_PROJECT_ENVIRONMENT##*/}\" ;; esac\n[ $1 != sync ] || cat pyproject.toml uv.lock uv.toml .python-version >\"$state/$1\"")
		img := Image{Requirements: project, Python: version, Pip: []string{"torch"}}
		out := boot(t, n, img, "python done", "pip done")
		venv := n.sh(`echo "$VIRTUAL_ENV"`)
		option := ""
		if version != "" {
			option = " --python " + version
		} else if !strings.Contains(out, "in from as \n") {
			t.Errorf("uv venv does not run in the project: %s", out)
		}
		if !strings.Contains(out, "in from as "+filepath.Base(venv)+"\n") {
			t.Errorf("uv sync does not run in the project, for the environment: %s", out)
		}
		calls := n.calls()
		for _, want := range []string{
			"uv venv" + option + " --seed " + venv,
			"uv sync --frozen --no-install-project --inexact" + option,
			"uv pip install --python " + venv + "/bin/python --index-strategy unsafe-best-match -- torch",
		} {
			if !slices.Contains(calls, want) {
				t.Errorf("calls %q, want %q", calls, want)
			}
		}
		if lock, err := os.ReadFile(filepath.Join(n.state(), "sync")); err != nil || !strings.Contains(string(lock), "tinydist") {
			t.Errorf("the project has %q, %v", lock, err)
		}
		if left, _ := filepath.Glob(filepath.Join(n.facts.CacheDir, "*.from")); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}

// The program that stands in for uv installs for real what a project has locked.
func TestLockedProjectForReal(t *testing.T) {
	n := newNode(t)
	withBarePython(t, n)
	for _, name := range []string{"curl", "chmod", "gzip", "sha256sum", "tar"} {
		n.link(name)
	}
	s := released(t)
	img := Image{Requirements: newProject(t, "tinydist", "1.5"), Env: offline(wheel(t, "tinydist", "1.5"))}
	delete(img.Env, "UV_OFFLINE")
	var d diary
	if err := Run(t.Context(), n, noSync, img, d.fetching(s)); err != nil {
		t.Fatalf("%v\n%s", err, d.output.String())
	}
	if got := n.sh("python -c 'import tinydist; print(tinydist.version)'"); got != "1.5" || s.Requests() != 1 {
		t.Errorf("version %q", got)
	}
}

// An index serves one package, to those who know the password.
func index(t *testing.T, package_, password string, seen func()) *httptest.Server {
	t.Helper()
	dir := wheel(t, package_, "1.5")
	files, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(files) != 1 {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, given, ok := r.BasicAuth(); !ok || user != "me" || given != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="ours"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		seen()
		w.Header().Set("Cache-Control", "max-age=600")
		w.Header().Set("ETag", `"1"`)
		switch r.URL.Path {
		case "/simple/" + package_ + "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<!DOCTYPE html><html><body><a href="/files/%s">x</a></body></html>`, filepath.Base(files[0]))
		case "/files/" + filepath.Base(files[0]):
			http.ServeFile(w, r, files[0])
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// A secret gives pip the password of a private index. It is in no file of the node, no argument and no output.
func TestPrivateIndex(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it makes environments with pip")
	}
	const password = "hunter2isAsecret"
	hidden := [][]byte{[]byte(password), []byte(base64.StdEncoding.EncodeToString([]byte("me:" + password)))}
	var asked atomic.Int32
	s := index(t, "tinydist", password, func() {
		asked.Add(1)
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range lines {
			if line, err := os.ReadFile(name); err == nil && bytes.Contains(line, hidden[0]) {
				t.Errorf("a process has the arguments %q", line)
			}
		}
	})
	url := strings.Replace(s.URL, "://", "://me:"+password+"@", 1) + "/simple"
	dir := write(t, map[string]string{"requirements.txt": "--index-url ${OUR_INDEX}\ntinydist\n", "plain.txt": "tinydist\n"})
	for name, tt := range map[string]struct {
		requirements string
		secrets      map[string]string
	}{
		"by pip's variable":            {"plain.txt", map[string]string{"PIP_INDEX_URL": url}},
		"by a reference in the file":   {"requirements.txt", map[string]string{"OUR_INDEX": url}},
		"by pip's variable, with a uv": {"plain.txt", map[string]string{"PIP_INDEX_URL": url}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			withBarePython(t, n)
			var d diary
			opts := d.options()
			if strings.HasSuffix(name, "uv") {
				for _, name := range []string{"curl", "chmod", "gzip", "sha256sum", "tar"} {
					n.link(name)
				}
				opts = d.fetching(released(t))
			}
			opts.Secrets = tt.secrets
			asked.Store(0)
			img := Image{Before: []string{`test -n "$PIP_INDEX_URL$OUR_INDEX"`}, Requirements: filepath.Join(dir, tt.requirements), Setup: []string{"python -c 'import tinydist'"}}
			if err := Run(t.Context(), n, noSync, img, opts); err != nil {
				t.Fatalf("%v\n%s", err, d.output.String())
			}
			if asked.Load() < 2 {
				t.Error("the index was not asked")
			}
			if strings.Contains(d.output.String(), password) {
				t.Errorf("output %s", d.output.String())
			}
			files := 0
			for _, root := range []string{n.facts.Home, n.facts.Root} {
				err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
					if err != nil || !e.Type().IsRegular() {
						return err
					}
					files++
					content, err := os.ReadFile(path)
					for _, secret := range hidden {
						if bytes.Contains(content, secret) || strings.Contains(path, string(secret)) {
							t.Errorf("%s has the password", path)
						}
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if files < 10 {
				t.Errorf("%d files were searched", files)
			}
		})
	}
}

// What a phase prints is without secrets in an error.
func TestSecretsOfAFailedPhase(t *testing.T) {
	n := newNode(t)
	opts := Options{Secrets: map[string]string{"TOKEN": "hunter2isAsecret"}, release: noUV()}
	err := Run(t.Context(), n, noSync, Image{Before: []string{`echo "it is $TOKEN"; exit 3`}}, opts)
	var failed *Error
	if !errors.As(err, &failed) || failed.Phase != "before 1/1" || failed.ExitCode != 3 || !slices.Equal(failed.Tail, []string{"it is [redacted]"}) {
		t.Errorf("error %+v", err)
	}
}
