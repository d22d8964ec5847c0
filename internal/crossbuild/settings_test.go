package crossbuild

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var crossTargets = []Platform{{"linux", "arm64"}, {"darwin", "arm64"}}

// builtHere builds a program for this machine, as a user does, and returns what the program knows
// about itself. With -trimpath, it names the program's folder.
func builtHere(t *testing.T, dir, pkg string, args ...string) *Program {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", append(append([]string{"build", "-o", exe}, args...), pkg)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", cmd.Args, out)
	}
	info, err := buildinfo.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{Info: info, Built: time.Now().Add(time.Hour), Files: []string{filepath.Join(dir, "main.go")}}
	if slices.Contains(args, "-trimpath") {
		p.SourceDir, p.Files = dir, []string{info.Path + "/main.go"}
	}
	return p
}

// built makes the program for a platform, and returns its content.
func (p *Program) built(t *testing.T, to Platform) []byte {
	t.Helper()
	s := store{t.TempDir()}
	bin, err := p.make(t.Context(), to, s)
	if err != nil {
		t.Fatal(err)
	}
	defer bin.file.Close()
	if format, err := Identify(bin.file.Name()); err != nil || format.Platform != to {
		t.Errorf("it is %+v, %v", format, err)
	}
	content, err := os.ReadFile(bin.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func onEach(t *testing.T, p *Program, has, hasNot []string) {
	for _, to := range crossTargets {
		t.Run(to.String(), func(t *testing.T) {
			content := p.built(t, to)
			for _, text := range has {
				if !bytes.Contains(content, []byte(text)) {
					t.Errorf("it lacks %q", text)
				}
			}
			for _, text := range hasNot {
				if bytes.Contains(content, []byte(text)) {
					t.Errorf("it has %q", text)
				}
			}
		})
	}
}

// user clears the go command's settings, writes the files into a folder, and returns it.
func user(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	needGo(t)
	for _, name := range []string{"GOFLAGS", "GOWORK", "CGO_ENABLED"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	t.Setenv("GOPROXY", "off")
	dir = t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

const usesLib = "package main\n\nimport \"example.com/lib\"\n\nfunc main() { println(lib.Name()) }\n"

// A library of the same workspace is taken from there: it is nowhere else.
func TestBuildsInAWorkspace(t *testing.T) {
	for _, requires := range []string{"", "\nrequire example.com/lib v1.0.0\n"} {
		dir := user(t, map[string]string{
			"go.work":     "go 1.26\n\nuse (\n\t./app\n\t./lib\n)\n",
			"app/go.mod":  "module example.com/app\n\ngo 1.26\n" + requires,
			"app/main.go": usesLib,
			"lib/go.mod":  "module example.com/lib\n\ngo 1.26\n",
			"lib/lib.go":  "package lib\n\n//go:noinline\nfunc Name() string { return \"of-the-workspace\" }\n",
		})
		p := builtHere(t, filepath.Join(dir, "app"), ".")
		onEach(t, p, []string{"of-the-workspace"}, nil)

		// A variable of the environment names go.work, which lies elsewhere.
		away := filepath.Join(t.TempDir(), "go.work")
		write(t, away, "go 1.26\n\nuse "+filepath.Join(dir, "app")+"\n\nuse "+filepath.Join(dir, "lib")+"\n")
		if err := os.Remove(filepath.Join(dir, "go.work")); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GOWORK", away)
		onEach(t, p, []string{"of-the-workspace"}, nil)
	}
}

// A module or workspace that vendors its libraries has no other copy of them.
func TestBuildsWhatIsVendored(t *testing.T) {
	const modules = "# example.com/lib v1.0.0\n## explicit; go 1.26\nexample.com/lib\n"
	lib := "package lib\n\n//go:noinline\nfunc Name() string { return \"of-the-vendor\" }\n"
	for name, files := range map[string]map[string]string{
		"module": {
			"go.mod":                      "module example.com/app\n\ngo 1.26\n\nrequire example.com/lib v1.0.0\n",
			"main.go":                     usesLib,
			"vendor/modules.txt":          modules,
			"vendor/example.com/lib/l.go": lib,
		},
		"workspace": {
			"go.work":                     "go 1.26\n\nuse .\n",
			"go.mod":                      "module example.com/app\n\ngo 1.26\n\nrequire example.com/lib v1.0.0\n",
			"main.go":                     usesLib,
			"vendor/modules.txt":          "## workspace\n" + modules,
			"vendor/example.com/lib/l.go": lib,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := user(t, files)
			t.Setenv("GOMODCACHE", t.TempDir()) // nothing there
			onEach(t, builtHere(t, dir, "."), []string{"of-the-vendor"}, nil)
		})
	}
}

// A build for another platform has the settings of the original build.
func TestKeepsBuildSettings(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it compiles the standard library for other systems")
	}
	dir := user(t, map[string]string{
		"go.mod":     "module example.com/app\n\ngo 1.26\n",
		"main.go":    "package main\n\nvar version = \"unset-version\"\n\nfunc main() { println(version, kind, code()) }\n",
		"with.go":    "//go:build extra\n\npackage main\n\nconst kind = \"with-extra\"\n",
		"without.go": "//go:build !extra\n\npackage main\n\nconst kind = \"without-extra\"\n",
		"c.go":       "package main\n\n// int answer(void) { return 42; }\nimport \"C\"\n\nfunc code() string { C.answer(); return \"with-c-code\" }\n",
		"go.go":      "//go:build !cgo\n\npackage main\n\nfunc code() string { return \"without-c-code\" }\n",
	})
	t.Run("tags and ldflags", func(t *testing.T) {
		p := builtHere(t, dir, ".", "-tags=extra", "-ldflags=-X 'main.version=1.2 beta' -s")
		onEach(t, p, []string{"1.2 beta", "with-extra", "without-c-code"}, []string{"without-extra"})
	})
	t.Run("without cgo", func(t *testing.T) {
		t.Setenv("CGO_ENABLED", "0")
		onEach(t, builtHere(t, dir, "."), []string{"unset-version", "without-extra", "without-c-code"}, nil)
	})
	t.Run("GOFLAGS of the user", func(t *testing.T) {
		t.Setenv("GOFLAGS", "-tags=extra -mod=mod")
		p := builtHere(t, dir, ".")
		t.Setenv("GOFLAGS", "-tags=other") // of the shell that starts the program
		onEach(t, p, []string{"with-extra"}, []string{"without-extra"})
	})
	t.Run("trimpath", func(t *testing.T) {
		p := builtHere(t, dir, ".", "-trimpath", "-tags=extra")
		onEach(t, p, []string{"with-extra"}, []string{dir})
	})
}

// Go does not record the -ldflags of a program that was built with -trimpath.
func TestTrimpathHidesLinkerFlags(t *testing.T) {
	dir := user(t, map[string]string{
		"go.mod":  "module example.com/app\n\ngo 1.26\n",
		"main.go": "package main\n\nvar version = \"unset-version\"\n\nfunc main() { println(version) }\n",
	})
	p := builtHere(t, dir, ".", "-trimpath", "-ldflags=-X main.version=set-by-the-linker")
	content := p.built(t, target)
	if noted := setting(p.Info, "-ldflags"); noted != "" || !bytes.Contains(content, []byte("unset-version")) || bytes.Contains(content, []byte("set-by-the-linker")) {
		t.Errorf("the program has recorded -ldflags=%q, but the documentation says that it records none", noted)
	}
}
