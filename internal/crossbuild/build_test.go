package crossbuild

import (
	"context"
	"debug/buildinfo"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
)

// target is the platform of most builds here: one that tests hardly ever run on.
var target = Platform{"linux", "arm64"}

func needGo(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Fatal("this test builds programs: ", err)
	}
}

// TestBuildsARealProgram builds an example of this repository for every platform that the
// documentation names.
func TestBuildsARealProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it compiles the standard library for other systems")
	}
	needGo(t)
	const module = "github.com/gputrain/gputrain"
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{
		Info:  &debug.BuildInfo{Path: module + "/examples/sweep", Main: debug.Module{Path: module}},
		Built: time.Now().Add(time.Hour), Files: []string{filepath.Join(root, "examples", "sweep", "main.go")},
	}
	platforms := []Platform{{"linux", "arm64"}, {"darwin", "arm64"}, {"windows", "amd64"}}
	for i, to := range platforms {
		t.Run(to.String(), func(t *testing.T) {
			if i > 0 && testing.Short() {
				t.Skip("scripts/test -deep runs it: a short run builds for one platform")
			}
			s := store{t.TempDir()}
			bin, err := p.make(t.Context(), to, s)
			if err != nil {
				t.Fatal(err)
			}
			defer bin.file.Close()
			format, err := Identify(bin.file.Name())
			if err != nil || format.Platform != to || format.Interpreter != "" && to.OS == "linux" {
				t.Errorf("it is %+v, %v", format, err)
			}
			info, err := buildinfo.ReadFile(bin.file.Name())
			if err != nil || info.Path != p.Info.Path || setting(info, "CGO_ENABLED") != "0" || setting(info, "-trimpath") != "true" {
				t.Errorf("its build information is %v, %v", info, err)
			}
			if sum, err := digestOf(bin.file.Name()); err != nil || sum != bin.Digest {
				t.Errorf("its digest is %s, %v; not %s", sum, err, bin.Digest)
			}
		})
	}
}

// newProgram writes a module with one program, and returns what such a program knows about itself.
func newProgram(t *testing.T, files map[string]string) *Program {
	t.Helper()
	needGo(t)
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOWORK", "off")
	t.Setenv("GOPROXY", "off")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.com/m\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() { println(\"it\") }\n")
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return &Program{
		Info:  &debug.BuildInfo{Path: "example.com/m", Main: debug.Module{Path: "example.com/m", Version: "(devel)"}},
		Files: []string{filepath.Join(dir, "main.go")}, Built: time.Now().Add(time.Hour),
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, s store) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestKeepsByContent also builds the same program several times at once.
func TestKeepsByContent(t *testing.T) {
	p, s := newProgram(t, nil), store{filepath.Join(t.TempDir(), "a", "b")}
	var all sync.WaitGroup
	digests := make([]string, 3)
	for i := range digests {
		all.Go(func() {
			bin, err := p.make(t.Context(), target, s)
			if err != nil {
				t.Error(err)
				return
			}
			digests[i] = bin.Digest
			bin.file.Close()
		})
	}
	all.Wait()
	if kept := names(t, s); len(kept) != 1 || kept[0] != p.key(target)+"-"+digests[0] || digests[1] != digests[0] || digests[2] != digests[0] {
		t.Errorf("three builds of the same program have the digests %q, and the store has %q", digests, kept)
	}
	if info, err := os.Stat(s.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}

	// A kept file is only used if its content matches its digest.
	kept := filepath.Join(s.dir, names(t, s)[0])
	write(t, kept, "torn")
	bin, err := p.make(t.Context(), target, s)
	if err != nil || bin.Digest != digests[0] {
		t.Fatalf("with a torn file in the store the build returns %v, %v", bin, err)
	}
	if sum, err := digestOf(kept); err != nil || sum != digests[0] {
		t.Errorf("the torn file is still in the store: %s, %v", sum, err)
	}

	write(t, p.Files[0], "package main\n\nfunc main() { println(\"another\") }\n")
	if other, err := p.make(t.Context(), target, s); err != nil || other.Digest == bin.Digest || len(names(t, s)) != 2 {
		t.Errorf("other sources are built to %v, %v; the store has %q", other, err, names(t, s))
	}
	// A removed file stays readable to processes that have it open.
	for _, name := range names(t, s) {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(s.dir, "copy"), "")
	r, err := bin.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := make([]byte, 4)
	if _, err := r.Read(b); err != nil || string(b) != "\x7fELF" {
		t.Errorf("read %q, %v", b, err)
	}
}

func TestStoreIsBounded(t *testing.T) {
	s := store{t.TempDir()}
	old := time.Now().Add(-time.Hour)
	for i := range keptFiles + 3 {
		name := filepath.Join(s.dir, strings.Repeat("a", i+1)+"-digest")
		write(t, name, "x")
		if err := os.Chtimes(name, old, old.Add(-time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	for name, age := range map[string]time.Duration{"killed": 2 * abandonedAfter, "busy": time.Minute} {
		dir := filepath.Join(s.dir, scratchPrefix+name)
		write(t, filepath.Join(dir, "worker"), "half")
		if err := os.Chtimes(dir, old, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	s.prune()
	kept := names(t, s)
	if len(kept) != keptFiles+1 || kept[0] != "a-digest" || kept[len(kept)-1] != scratchPrefix+"busy" {
		t.Errorf("the store has %q", kept)
	}
}

func TestWhatCannotBeBuiltSaysWhy(t *testing.T) {
	library := map[string]string{"lib/lib.go": "package lib\n"}
	for _, tt := range []struct {
		name  string
		files map[string]string
		set   func(t *testing.T, p *Program)
		is    error
		want  []string
	}{
		{"no toolchain", nil, func(t *testing.T, p *Program) { t.Setenv("PATH", t.TempDir()); t.Setenv("GOROOT", "") },
			ErrNoToolchain, []string{"no go command in PATH"}},
		{"it does not compile", map[string]string{"x.go": "package main\n\nvar x int = \"text\"\n"}, nil, nil, []string{"go build: ", "x.go:3", "cannot use \"text\""}},
		{"C code is all of a package", map[string]string{
			"main.go": "package main\n\nimport \"example.com/m/c\"\n\nfunc main() { c.F() }\n",
			"c/c.go":  "package c\n\nimport \"C\"\n\nfunc F() {}\n",
		}, nil, nil, []string{"example.com/m/c has C code", "CGO_ENABLED=0"}},
		{"sources have changed", nil, func(t *testing.T, p *Program) { p.Built = time.Now().Add(-time.Hour) }, ErrChanged, []string{"main.go was changed "}},
		{"sources are gone", nil, func(t *testing.T, p *Program) {
			if err := os.RemoveAll(filepath.Dir(p.Files[0])); err != nil {
				t.Fatal(err)
			}
		}, ErrNoSources, []string{"cannot find the sources of this program", "package example.com/m", "none of the folders"}},
		{"it does not know where its sources are", nil, func(t *testing.T, p *Program) {
			t.Chdir(filepath.Dir(p.Files[0])) // the working directory is not used
			p.Files = []string{"example.com/m/main.go"}
		}, ErrNoSources, []string{"package example.com/m", "built with -trimpath"}},
		{"the named folder has another module", nil, func(t *testing.T, p *Program) {
			p.SourceDir = filepath.Dir(p.Files[0])
			p.Info.Path, p.Info.Main.Path = "example.com/other", "example.com/other"
		}, ErrNoSources, []string{"example.com/other"}},
		{"the named folder has changed", nil, func(t *testing.T, p *Program) {
			p.SourceDir, p.Files = filepath.Dir(p.Files[0]), nil
			p.Built = time.Now().Add(-time.Hour)
		}, ErrChanged, []string{"main.go was changed "}},
		{"another module is there", nil, func(t *testing.T, p *Program) {
			p.Info.Path, p.Info.Main.Path = "example.com/other", "example.com/other"
		},
			nil, []string{"cannot find the sources", "example.com/other"}},
		{"the package has moved to another module", library, func(t *testing.T, p *Program) { p.Info.Main.Path = "example.com/former" },
			nil, []string{"in the module example.com/m, but this program's module is example.com/former"}},
		{"it was started by some of its files", map[string]string{"main.go": "package main\n\nfunc main() { println(it) }\n", "it.go": "package main\n\nconst it = 1\n"},
			func(t *testing.T, p *Program) { p.Info = &debug.BuildInfo{Path: commandLine} }, nil, []string{"undefined: it", "start it by its folder"}},
		{"something else is built by that name", nil, func(t *testing.T, p *Program) {
			// A released version of this program is not built from a working folder.
			p.Info.Main.Sum, p.Info.Main.Version = "h1:xyz", "v1.0.0"
		}, nil, []string{"example.com/m@v1.0.0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProgram(t, tt.files)
			if tt.set != nil {
				tt.set(t, p)
			}
			s := store{t.TempDir()}
			_, err := p.make(t.Context(), target, s)
			if err == nil || tt.is != nil && !errors.Is(err, tt.is) {
				t.Fatalf("got %v; want %v", err, tt.is)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error %q does not contain %q", err, part)
				}
			}
			if kept := names(t, s); len(kept) > 0 {
				t.Errorf("left is %q", kept)
			}
		})
	}
}

// TestChangedTests changes the source of a test, and nothing else.
func TestChangedTests(t *testing.T) {
	p := newProgram(t, map[string]string{"lib/lib.go": "package lib\n", "lib/lib_test.go": "package lib\n", "lib/other_test.go": "package lib_test\n"})
	dir := filepath.Dir(p.Files[0])
	p.Info.Path, p.Test, p.Files = "example.com/m/lib.test", true, []string{filepath.Join(dir, "lib", "lib_test.go")}
	p.Built = time.Now()
	before := p.Built.Add(-time.Hour)
	for _, name := range []string{"lib.go", "lib_test.go", "other_test.go"} {
		if err := os.Chtimes(filepath.Join(dir, "lib", name), before, before); err != nil {
			t.Fatal(err)
		}
	}
	s := store{t.TempDir()}
	if _, err := p.make(t.Context(), target, s); err != nil {
		t.Errorf("without a change: %v", err)
	}
	for _, name := range []string{"lib_test.go", "other_test.go"} {
		file := filepath.Join(dir, "lib", name)
		if err := os.Chtimes(file, before, p.Built.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := p.make(t.Context(), target, s); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), name) {
			t.Errorf("after a change of %s: %v", name, err)
		}
		if err := os.Chtimes(file, before, before); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOtherVersionsAreAnotherProgram(t *testing.T) {
	mod := func(path, version string, replace *debug.Module) *debug.Module {
		return &debug.Module{Path: path, Version: version, Replace: replace}
	}
	ours := []*debug.Module{mod("a", "v1", nil), mod("b", "v1", mod("../b", "(devel)", nil)), mod("here", "v1", nil)}
	same := []*debug.Module{mod("a", "v1", nil), mod("b", "v1", mod("../b", "", nil)), mod("there", "v1", nil)}
	if why := otherVersions(same, ours); why != "" {
		t.Error(why)
	}
	for _, other := range []*debug.Module{mod("a", "v2", nil), mod("b", "v1", nil), mod("b", "v1", mod("b", "v3", nil)), mod("a", "v1", mod("../a", "", nil))} {
		if why := otherVersions([]*debug.Module{other}, ours); !strings.Contains(why, other.Path+" ") {
			t.Errorf("the versions %v are accepted: %q", other, why)
		}
	}
}

// TestAnEndedBuildLeavesNothing cancels a build in the middle.
func TestAnEndedBuildLeavesNothing(t *testing.T) {
	p, s := newProgram(t, nil), store{t.TempDir()}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	// This go command runs until it is ended.
	fake := t.TempDir()
	write(t, filepath.Join(fake, "go"), "#!/bin/sh\n: >"+fake+"/begun\nexec sleep 600\n")
	if err := os.Chmod(filepath.Join(fake, "go"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", fake+string(os.PathListSeparator)+os.Getenv("PATH"))
	go func() {
		for !exists(filepath.Join(fake, "begun")) {
			time.Sleep(time.Millisecond)
		}
		cancel(enough)
	}()
	if _, err := p.make(ctx, target, s); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	if kept := names(t, s); len(kept) > 0 {
		t.Errorf("left is %q", kept)
	}
}

func TestIdentifyRefuses(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"":                             "too short",
		"#!/bin/sh\n":                  "a script",
		"a text of some length":        "not an ELF",
		"\x7fELF and nothing else":     "not a program",
		"MZ and nothing that follows":  "not a program",
		"\xcf\xfa\xed\xfe and no more": "not a program",
	} {
		name := filepath.Join(dir, "file")
		write(t, name, text)
		if f, err := Identify(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v", text, f, err)
		}
	}
	if _, err := Identify(dir); err == nil {
		t.Error("Identify accepts a folder")
	}
	if _, err := Identify(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if f, err := Identify(self); err != nil || f.Platform != Here() {
		t.Errorf("this test is %v, %v", f, err)
	}
}

func TestLinkerFlags(t *testing.T) {
	for recorded, want := range map[string]string{
		"":                                     "",
		"-s -w -X main.v=1":                    "-X main.v=1",
		"-X=main.v=1 -extldflags=-static":      "-X main.v=1",
		`-X "main.v=a b" --X 'main.w=it "is"'`: `-X "main.v=a b" -X 'main.w=it "is"'`,
		"example.com/...=-X main.v=1":          "-X main.v=1",
		"-X":                                   "",
		`-linkmode external -X 'main.v=open`:   "-X main.v=open",
	} {
		got, err := joinFlags(linkerFlags(recorded))
		if err != nil || got != want {
			t.Errorf("linkerFlags(%q) is %q, %v; want %q", recorded, got, err, want)
		}
	}
	if _, err := joinFlags([]string{`a"b'c`}); err == nil {
		t.Error("joinFlags accepts a flag with both kinds of quotes")
	}
}

func TestAdvice(t *testing.T) {
	info := func(path, version, sum string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Path: path, Main: debug.Module{Path: "example.com/m", Version: version, Sum: sum}, Settings: settings}
	}
	for want, p := range map[string]*Program{
		"GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -o worker example.com/m/x in the module example.com/m": {
			Info: info("example.com/m/x", "(devel)", "")},
		"GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -o worker -tags=a,b example.com/m/x in the module example.com/m": {
			Info: info("example.com/m/x", "(devel)", "", debug.BuildSetting{Key: "-tags", Value: "a,b"})},
		"GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go test -c -o worker example.com/m/x in the module example.com/m": {
			Info: info("example.com/m/x.test", "(devel)", ""), Test: true},
		"GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go install example.com/m/x@v1.2.3": {
			Info: info("example.com/m/x", "v1.2.3", "h1:x")},
		"GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -o worker '/src/my program/main.go'": {
			Info: info(commandLine, "", ""), Files: []string{"/src/my program/main.go"}},
	} {
		if got := p.Advice(target); got != "run "+want {
			t.Errorf("got  %s\nwant run %s", got, want)
		}
	}
}
