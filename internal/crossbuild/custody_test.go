//go:build unix

package crossbuild

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/strangertest"
)

// refused makes a program, which must fail for lack of sources, and returns the message.
func refused(t *testing.T, p *Program) string {
	t.Helper()
	away, err := os.MkdirTemp("", "store") // not beside the sources
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(away) })
	bin, err := p.make(t.Context(), target, store{away})
	if err == nil {
		bin.file.Close()
		t.Fatal("the program was built")
	}
	if !errors.Is(err, ErrNoSources) {
		t.Errorf("got %v", err)
	}
	return err.Error()
}

// Sources that another user owns, or can write to, are not built, in any place that decides what is
// built. If that is the folder itself, the go command is not even started.
func TestSourcesOfOthersAreNotBuilt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		files  map[string]string
		attack func(t *testing.T, dir string)
		says   string
		starts bool // whether the go command starts, to list the sources
	}{
		{"a folder of all users", nil, func(t *testing.T, dir string) { chmod(t, dir, 0o777) }, "can be written to by other users", false},
		{"one above", nil, func(t *testing.T, dir string) { chmod(t, filepath.Dir(dir), 0o777) }, "can be written to by other users", false},
		{"a source of all users", nil, func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "main.go"), 0o666) }, "main.go can be written", true},
		{"go.mod of all users", nil, func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "go.mod"), 0o666) }, "go.mod can be written", false},
		{"go.sum of another user", map[string]string{"go.sum": ""}, func(t *testing.T, dir string) { give(t, filepath.Join(dir, "go.sum")) }, "go.sum is another user's", false},
		{"another user's folder", nil, func(t *testing.T, dir string) { give(t, dir) }, "is another user's", false},
		{"another user's source", nil, func(t *testing.T, dir string) { give(t, filepath.Join(dir, "main.go")) }, "main.go is another user's", true},
		{"an embedded file of another user", map[string]string{
			"main.go":  "package main\n\nimport _ \"embed\"\n\n//go:embed text\nvar text string\n\nfunc main() { println(text) }\n",
			"text/one": "", "text/two": "",
		}, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "main.go"), "package main\n\nimport \"embed\"\n\n//go:embed text\nvar text embed.FS\n\nfunc main() { println(text) }\n")
			give(t, filepath.Join(dir, "text", "two"))
		}, "two is another user's", true},
		{"a module that is replaced by another user's folder", map[string]string{
			"go.mod":      "module example.com/m\n\ngo 1.26\n\nrequire example.com/lib v1.0.0\n\nreplace example.com/lib => ./lib\n",
			"main.go":     "package main\n\nimport _ \"example.com/lib\"\n\nfunc main() {}\n",
			"lib/go.mod":  "module example.com/lib\n\ngo 1.26\n",
			"lib/file.go": "package lib\n",
		}, func(t *testing.T, dir string) { give(t, filepath.Join(dir, "lib")) }, "lib is another user's", true},
		{"a link to another user's source", nil, func(t *testing.T, dir string) {
			away := filepath.Join(strangertest.Shared(t), "theirs.go")
			strangertest.Run(t, `echo 'package main' >"$1"`, away)
			if err := os.Symlink(away, filepath.Join(dir, "linked.go")); err != nil {
				t.Fatal(err)
			}
		}, "theirs.go is another user's", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProgram(t, tt.files)
			started := watchGo(t)
			strangertest.Need(t)
			dir := filepath.Dir(p.Files[0])
			tt.attack(t, dir)
			if why := refused(t, p); !strings.Contains(why, tt.says) || !strings.Contains(why, "not built") {
				t.Errorf("the error is %q; want %q", why, tt.says)
			}
			if started() != tt.starts {
				t.Errorf("the go command was started: %v", started())
			}
		})
	}
}

func chmod(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

// give makes the stranger the owner of a file or folder.
func give(t *testing.T, name string) {
	t.Helper()
	if err := os.Chown(name, strangertest.UID, strangertest.UID); err != nil {
		t.Fatal(err)
	}
}

// watchGo returns a function that reports whether the go command was started.
func watchGo(t *testing.T) (started func() bool) {
	t.Helper()
	real, err := findGo()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go"), "#!/bin/sh\n: >'"+dir+"/started'\nexec '"+real+"' \"$@\"\n")
	chmod(t, filepath.Join(dir, "go"), 0o700)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() bool { return exists(filepath.Join(dir, "started")) }
}

// inShared moves a program's module into a folder in which every user can make files.
func inShared(t *testing.T, p *Program) (shared string) {
	t.Helper()
	shared = strangertest.Shared(t)
	dir := filepath.Join(shared, "mine")
	if err := os.Rename(filepath.Dir(p.Files[0]), dir); err != nil {
		t.Fatal(err)
	}
	p.Files = []string{filepath.Join(dir, "main.go")}
	return shared
}

// A workspace that another user puts above the program's own folder is not used, nor is its
// library.
func TestAStrangersWorkspaceIsNotUsed(t *testing.T) {
	lib := "package lib\n\n//go:noinline\nfunc Name() string { return %NAME% }\n"
	p := newProgram(t, map[string]string{
		"go.mod":     "module example.com/m\n\ngo 1.26\n\nrequire example.com/lib v1.0.0\n\nreplace example.com/lib => ./lib\n",
		"main.go":    usesLib,
		"lib/go.mod": "module example.com/lib\n\ngo 1.26\n",
		"lib/lib.go": strings.ReplaceAll(lib, "%NAME%", `"of-the-program"`),
	})
	os.Unsetenv("GOWORK")
	shared := inShared(t, p)
	strangertest.Run(t, `cd "$1" && mkdir lib && printf 'module example.com/lib\n\ngo 1.26\n' >lib/go.mod && printf '%s' "$2" >lib/lib.go &&
		printf 'go 1.26\n\nuse ./mine\n\nuse ./lib\n' >go.work`, shared, strings.ReplaceAll(lib, "%NAME%", `"of-the-stranger"`))
	content := string(p.built(t, target))
	if !strings.Contains(content, "of-the-program") || strings.Contains(content, "of-the-stranger") {
		t.Error("another user's library was built into the program")
	}
}

// A file without a module is not built where another user could put a module above it.
func TestAStrangersModuleIsNotUsed(t *testing.T) {
	p := newProgram(t, nil)
	shared := inShared(t, p)
	p.Info.Path, p.Info.Main.Path = commandLine, ""
	if err := os.Remove(filepath.Join(shared, "mine", "go.mod")); err != nil {
		t.Fatal(err)
	}
	started := watchGo(t)
	if why := refused(t, p); !strings.Contains(why, shared+" can be written to by other users") || started() {
		t.Errorf("the error is %q; the go command was started: %v", why, started())
	}
}

// A folder that the caller names is built, whichever user owns it.
func TestANamedFolderIsBuilt(t *testing.T) {
	p := newProgram(t, nil)
	strangertest.Need(t)
	dir := filepath.Dir(p.Files[0])
	give(t, dir)
	p.SourceDir, p.Files = dir, []string{"example.com/m/main.go"}
	p.built(t, target)

	p.Info.Path, p.Info.Main.Path, p.Files = commandLine, "", []string{"./main.go"}
	p.built(t, target) // by its files, whose folder -trimpath has removed
}

// Vendored files are checked for changes, even if they belong to a released version's module.
func TestChangedVendor(t *testing.T) {
	p := newProgram(t, map[string]string{
		"go.mod":                      "module example.com/m\n\ngo 1.26\n\nrequire example.com/lib v1.0.0\n",
		"main.go":                     usesLib,
		"vendor/modules.txt":          "# example.com/lib v1.0.0\n## explicit; go 1.26\nexample.com/lib\n",
		"vendor/example.com/lib/l.go": "package lib\n\nfunc Name() string { return \"\" }\n",
	})
	dir := filepath.Dir(p.Files[0])
	p.Built = time.Now().Add(-time.Hour)
	before := p.Built.Add(-time.Hour)
	for _, name := range []string{"main.go", "go.mod"} {
		if err := os.Chtimes(filepath.Join(dir, name), before, before); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.make(t.Context(), target, store{filepath.Join(t.TempDir(), "store")}); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "l.go was changed ") {
		t.Errorf("after a change of a vendored file: %v", err)
	}
}

// Each build starts from the one before, so a store that another user owns is not used.
func TestAStrangersStoreIsNotUsed(t *testing.T) {
	p := newProgram(t, nil)
	dir := filepath.Join(strangertest.Shared(t), "store")
	strangertest.Run(t, `mkdir -m 777 "$1"`, dir)
	if _, err := p.make(t.Context(), target, store{dir}); err == nil || !strings.Contains(err.Error(), "another user's") {
		t.Errorf("got %v", err)
	}
}

// TestGoSeesNoCredentials runs a go command that records its environment.
func TestGoSeesNoCredentials(t *testing.T) {
	p := newProgram(t, nil)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go"), "#!/bin/sh\nenv >>'"+dir+"/seen'\nexit 1\n")
	chmod(t, filepath.Join(dir, "go"), 0o700)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, key := range []string{"AWS_SECRET_ACCESS_KEY", "RUNPOD_API_KEY", "HF_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "GITHUB_TOKEN"} {
		t.Setenv(key, "hunter2")
	}
	t.Setenv("GOPRIVATE", "example.com/secret")
	refused(t, p)
	seen, err := os.ReadFile(filepath.Join(dir, "seen"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"GOPRIVATE=example.com/secret\n", "GOARCH=" + target.Arch + "\n", "CGO_ENABLED=0\n", "PATH=" + dir, "PWD=" + filepath.Dir(p.Files[0]) + "\n"} {
		if !strings.Contains(string(seen), want) {
			t.Errorf("the go command does not get %s", want)
		}
	}
	if strings.Contains(string(seen), "hunter2") {
		t.Errorf("the go command gets\n%s", seen)
	}
}

// The go command is never taken from the working directory.
func TestGoIsNotTakenFromHere(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"go", "bin/go"} {
		write(t, filepath.Join(dir, name), "#!/bin/sh\n")
		chmod(t, filepath.Join(dir, name), 0o700)
	}
	t.Chdir(dir)
	for path, root := range map[string]string{".": ".", "": "", "bin:.": "./"} {
		t.Setenv("PATH", path)
		t.Setenv("GOROOT", root)
		if found, err := findGo(); !errors.Is(err, ErrNoToolchain) {
			t.Errorf("PATH %q, GOROOT %q: %s, %v", path, root, found, err)
		}
	}
}
