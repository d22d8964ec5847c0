//go:build unix

package bootstrap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write writes files, by their paths, into a new folder, and returns it.
func write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// newProject writes a project that is locked to one package, and returns the path of its pyproject.toml.
func newProject(t *testing.T, name, version string) string {
	t.Helper()
	return filepath.Join(write(t, map[string]string{
		"pyproject.toml": "[project]\nname = \"ours\"\nversion = \"1\"\ndependencies = [\"" + name + "\"]\n",
		"uv.lock": fmt.Sprintf("version = 1\n\n[[package]]\nname = %q\nversion = %q\nsource = { registry = \"https://pypi.org/simple\" }\n\n"+
			"[[package]]\n# the project\nsource = { virtual = \".\" }\n", name, version),
	}), "pyproject.toml")
}

func TestReadRequirements(t *testing.T) {
	dir := write(t, map[string]string{
		"a/requirements.txt": "\ufeff# ours\r\n-r base.txt # and these\r\n--requirement=../shared/base.txt\r\n-c \\\n  limits.txt\nnumpy==2 \\\n  --hash=sha256:00\n" +
			"x @ https://${USER}:${TOKEN}@example.com/x.whl\n./$not-r\n",
		"a/base.txt":      "-r requirements.txt\ntorch\n-e git+ssh://git@example.com/x\n-f https://example.com/links",
		"shared/base.txt": "-r https://example.com/more.txt\n/opt/x.whl\n",
		"a/limits.txt":    "numpy<3",
	})
	name := filepath.Join(dir, "a", "requirements.txt")
	if _, err := readRequirements(name); err == nil || !strings.Contains(err.Error(), `requirements.txt:9: "./$not-r" is a path of this computer`) {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, []byte(strings.Replace(string(text), "./$not-r\n", "", 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := readRequirements(name)
	if err != nil || !r.hashed || r.kind != requirementsTxt {
		t.Fatalf("%+v, %v", r, err)
	}
	want := map[string]string{
		"requirements.txt": "# ours\n-r 1-base.txt\n-r 2-base.txt\n-c 3-limits.txt\n\nnumpy==2 \\\n  --hash=sha256:00\nx @ https://${USER}:${TOKEN}@example.com/x.whl\n",
		"1-base.txt":       "-r requirements.txt\ntorch\n-e git+ssh://git@example.com/x\n-f https://example.com/links",
		"2-base.txt":       "-r https://example.com/more.txt\n/opt/x.whl\n",
		"3-limits.txt":     "numpy<3",
	}
	for _, f := range r.files {
		if want[f.name] != string(f.content) {
			t.Errorf("%s is %q, want %q", f.name, f.content, want[f.name])
		}
		delete(want, f.name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %q", want)
	}
}

func TestReadRequirementsRefuses(t *testing.T) {
	dir := write(t, map[string]string{
		"p/requirements.txt": "", "lonely/pyproject.toml": "", "local/pyproject.toml": "",
		"local/uv.lock":         "[[package]]\nname = \"a\"\nsource = { editable = \"packages/a\" }\n[[package]]\nsource = { registry = \"wheels\" }\n[[package]]\nsource = { path = \"../x.whl\" }\n",
		"secret/pyproject.toml": "authors = [\"https://a.example\",\"me@b.example\"]\n\nurl = \"https://me:hunter2@example.com/simple\"\n", "secret/uv.lock": "",
		"x.toml": "", "x.py": "", "environment.yml": "", "binary.txt": "a\x00b",
	})
	for line, want := range map[string]string{
		"-r missing.txt":                       "no such file",
		"-c":                                   "takes the name of one file",
		"-r a.txt b.txt":                       "takes the name of one file",
		"-r ${NAME}.txt":                       "a variable",
		"-r file:///etc/x":                     "by its path",
		"-e .":                                 "a path of this computer",
		"-e ./x[extra]":                        "a path of this computer",
		"../x":                                 "a path of this computer",
		"sub/x":                                "a path of this computer",
		"x.whl":                                "a path of this computer",
		"dist/x-1.tar.gz ; python_version>'3'": "a path of this computer",
		"x @ file:./x":                         "a path of this computer",
		"x[a] @ ./x":                           "a path of this computer",
		"--find-links=wheels":                  "a path of this computer",
		"--index-url https://me:hunter2@example.com": "${NAME}",
		"--index-url https://hunter2@example.com":    "${NAME}",
		"x @ git+ssh://git:hunter2@example.com/x":    "${NAME}",
		"x # https://me:hunter2@example.com":         "${NAME}",
		"https://${USER}:hunter2@example.com/x.whl":  "${NAME}",
	} {
		name := filepath.Join(dir, "p", "requirements.txt")
		if err := os.WriteFile(name, []byte("numpy\n"+line+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Plan(Image{Requirements: name})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
		if line != "-r missing.txt" && !strings.Contains(err.Error(), name+":2:") {
			t.Errorf("%s: %v does not name the line", line, err)
		}
	}
	for name, wants := range map[string][]string{
		"missing.txt": {"no such file"}, "p": {"not a file"}, "x.toml": {"neither a requirements.txt"}, "x.py": {"neither"}, "environment.yml": {"neither"},
		"binary.txt": {"not text"}, "lonely/uv.lock": {"pyproject.toml beside it"}, "lonely/pyproject.toml": {"run uv lock"}, "none/pyproject.toml": {"no such file"},
		"local/pyproject.toml":  {`"packages/a"`, `"wheels"`, `"../x.whl"`},
		"secret/pyproject.toml": {"pyproject.toml:3:", "UV_INDEX_<NAME>_PASSWORD"},
	} {
		_, err := Plan(Image{Requirements: filepath.Join(dir, filepath.FromSlash(name))})
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "toml:1:") {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

// The environment's key has the content of the files, and the names of secrets for pip and uv.
func TestKeyOfRequirements(t *testing.T) {
	dir := write(t, map[string]string{"requirements.txt": "-r more.txt\n", "more.txt": "numpy\n"})
	img := Image{Requirements: filepath.Join(dir, "requirements.txt")}
	key := func(secrets map[string]string) string {
		phases, _, err := plan(img, secrets)
		if err != nil || len(phases) != 2 {
			t.Fatalf("%v, %v", phases, err)
		}
		return phases[0].Key
	}
	first := key(nil)
	if key(map[string]string{"HF_TOKEN": "x"}) != first {
		t.Error("a secret of something else changes the key")
	}
	index := key(map[string]string{"PIP_INDEX_URL": "x"})
	if index == first || index != key(map[string]string{"PIP_INDEX_URL": "y"}) {
		t.Error("the name of a secret of pip is part of the key, and its value is not")
	}
	if err := os.WriteFile(filepath.Join(dir, "more.txt"), []byte("numpy\ntorch\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if key(nil) == first {
		t.Error("the key does not depend on an included file")
	}
}

// The files arrive as they are, whatever they contain.
func FuzzRequirements(f *testing.F) {
	f.Add("numpy\n", "torch")
	f.Add("-r more.txt\n'\"$HOME`id`\\\n", "-c requirements.txt\n#\n\n")
	f.Add("-r\tmore.txt # x", "END_\nEOF\n")
	f.Add("--hash=sha256:0 \\\n", "https://u:hunter2isAsecret@h\n")
	f.Fuzz(func(t *testing.T, first, second string) {
		dir := write(t, map[string]string{"requirements.txt": first, "more.txt": second})
		r, err := readRequirements(filepath.Join(dir, "requirements.txt"))
		if err != nil {
			return
		}
		n := newNode(t)
		for _, file := range r.files {
			if strings.ContainsAny(file.name, "/'\" \n") || strings.Contains(string(file.content), "hunter2isAsecret@") {
				t.Fatalf("%q: %q", file.name, file.content)
			}
		}
		cmd := n.command(t.Context(), "sh", "-e")
		cmd.Stdin = r.script()
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v: %s", err, out)
		}
		for _, file := range r.files {
			want := string(file.content)
			if want != "" && !strings.HasSuffix(want, "\n") {
				want += "\n"
			}
			got, err := os.ReadFile(filepath.Join(n.facts.WorkDir, file.name))
			if err != nil || string(got) != want {
				t.Fatalf("%s has %q, want %q", file.name, got, want)
			}
		}
	})
}
