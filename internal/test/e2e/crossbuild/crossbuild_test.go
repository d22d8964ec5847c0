package crossbuild

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/local"
)

const libraryPath = "github.com/gputrain/gputrain"

// A foreignProgram is a user's program in its own module. Unless env sets another platform, its client is built for
// 386, which also runs on amd64. So it differs from this machine's nodes, and its worker is cross-built.
type foreignProgram struct {
	dir string
	env []string
}

// A foreignReport is what a foreignProgram prints: its own platform, and what its function finds on the node.
type foreignReport struct {
	Client, Node                string
	Path, Note, Tag, Cgo, Error string
}

const foreignMain = `package main

import (
	"context"
	"encoding/json"
	"os"

	"example.com/foreign/job"
	"github.com/gputrain/gputrain"
)

var note = "none"

var where = gputrain.Func("where", func(ctx context.Context, _ int) (job.Report, error) {
	r := job.Here()
	r.Note = note
	return r, nil
})

func main() {
	gputrain.Init()
	json.NewEncoder(os.Stdout).Encode(describe(context.Background()))
}
`

const foreignRun = `package main

import (
	"context"

	"example.com/foreign/job"
)

func describe(ctx context.Context) job.Report { return job.Run(ctx, where) }
`

const foreignMainTest = `package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/gputrain/gputrain"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	os.Exit(m.Run())
}

func TestDescribe(t *testing.T) {
	json.NewEncoder(os.Stdout).Encode(describe(t.Context()))
}
`

const foreignJob = `// Package job is what programs and tests of the module share.
package job

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

type Report struct{ Client, Node, Path, Note, Tag, Cgo, Error string }

func Here() Report {
	r := Report{Node: runtime.GOOS + "/" + runtime.GOARCH, Tag: tag}
	info, _ := debug.ReadBuildInfo()
	r.Path = info.Path
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" {
			r.Cgo = s.Value
		}
	}
	return r
}

func Run(ctx context.Context, where *gputrain.Function[int, Report], opts ...gputrain.Option) Report {
	os.Unsetenv("LD_LIBRARY_PATH") // the nodes are to have none
	var r Report
	opts = append(opts, gputrain.WithSourceDir(os.Getenv("FOREIGN_SOURCES")))
	err := gputrain.With(ctx, local.Config{}, gputrain.Spec{}, func(ctx context.Context, pool *gputrain.Compute) (err error) {
		r, err = where.Run(pool, 0)
		return err
	}, opts...)
	if err != nil {
		r.Error = err.Error()
	}
	r.Client = runtime.GOOS + "/" + runtime.GOARCH
	return r
}
`

const foreignTest = `package job

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/gputrain/gputrain"
)

var where = gputrain.Func("where", func(context.Context, int) (Report, error) { return Here(), nil })

func TestMain(m *testing.M) {
	gputrain.Init()
	os.Exit(m.Run())
}

func TestWhere(t *testing.T) {
	json.NewEncoder(os.Stdout).Encode(Run(t.Context(), where))
}
`

// newForeignProgram writes the module, which uses gputrain from the working folder.
func newForeignProgram(t *testing.T) *foreignProgram {
	t.Helper()
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it builds programs for other platforms")
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("not on this machine: only linux/amd64 runs programs of two platforms")
	}
	built, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal("this test builds programs: ", err)
	}
	f := &foreignProgram{dir: t.TempDir(), env: []string{
		"GOARCH=386", "GOFLAGS=", "GOWORK=off", "GOPROXY=off",
		"XDG_CACHE_HOME=" + t.TempDir(), "GOCACHE=" + strings.TrimSpace(string(built)),
	}}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	mod := strings.Replace(e2etest.ReadText(t, "go.mod"), "module "+libraryPath, "module example.com/foreign", 1)
	mod += fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", libraryPath, here)
	for name, text := range map[string]string{
		"go.mod": mod, "go.sum": e2etest.ReadText(t, "go.sum"), "main.go": foreignMain, "run.go": foreignRun,
		"main_test.go": foreignMainTest, "job/job.go": foreignJob, "job/job_test.go": foreignTest,
		"job/plain.go":   "//go:build !special\n\npackage job\n\nconst tag = \"plain\"\n",
		"job/special.go": "//go:build special\n\npackage job\n\nconst tag = \"special\"\n",
	} {
		f.write(t, name, text)
	}
	return f
}

func (f *foreignProgram) write(t *testing.T, name, text string) {
	t.Helper()
	e2etest.WriteText(t, filepath.Join(f.dir, name), text)
}

// run runs a command in a folder, and returns its output.
func (f *foreignProgram) run(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), f.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, out, stderr.Bytes())
	}
	return out
}

// report runs a command in a folder, and returns the report in one line of its output.
func (f *foreignProgram) report(t *testing.T, dir string, args ...string) foreignReport {
	t.Helper()
	out := f.run(t, dir, args...)
	for line := range bytes.Lines(out) {
		var r foreignReport
		if json.Unmarshal(line, &r) == nil {
			return r
		}
	}
	t.Fatalf("%v printed %q", args, out)
	return foreignReport{}
}

// TestFunctionsRunOnAnotherPlatform starts a program in every possible way. The same program, built for the node, runs
// the function.
func TestFunctionsRunOnAnotherPlatform(t *testing.T) {
	f := newForeignProgram(t)
	elsewhere := t.TempDir()
	f.run(t, f.dir, "go", "build", "-o", elsewhere+"/built", ".")
	f.run(t, f.dir, "go", "build", "-trimpath", "-o", f.dir+"/trimmed", ".")
	f.run(t, f.dir, "go", "test", "-c", "-o", elsewhere+"/job.test", "./job")
	const (
		program = "example.com/foreign"
		files   = "command-line-arguments"
	)
	// named returns a command that gives the program the path of its sources.
	named := func(args ...string) []string {
		return append([]string{"env", "FOREIGN_SOURCES=" + f.dir}, args...)
	}
	for _, tt := range []struct {
		name, dir string
		args      []string
		want      foreignReport
	}{
		{"go run of a package", f.dir, []string{"go", "run", "."}, foreignReport{Path: program}},
		{"go run of files", f.dir, []string{"go", "run", "main.go", "run.go"}, foreignReport{Path: files}},
		{"go run of files, with -trimpath", f.dir, named("go", "run", "-trimpath", "main.go", "run.go"), foreignReport{Path: files}},
		{"go run with flags", f.dir, []string{"go", "run", "-tags=other,special", "-ldflags=-X 'main.note=well noted'", "."},
			foreignReport{Path: program, Tag: "special", Note: "well noted"}},
		{"a program of go build, elsewhere", elsewhere, []string{elsewhere + "/built"}, foreignReport{Path: program}},
		{"one without paths", elsewhere, named(f.dir + "/trimmed"), foreignReport{Path: program}},
		{"go test of a package", f.dir, []string{"go", "test", "-count=1", "-v", "-run", "^TestWhere$", "./job"}, foreignReport{Path: program + "/job.test", Note: "-"}},
		{"go test, with -trimpath", f.dir, named("go", "test", "-trimpath", "-count=1", "-v", "./job"), foreignReport{Path: program + "/job.test", Note: "-"}},
		{"a program of go test, elsewhere", elsewhere, []string{elsewhere + "/job.test", "-test.run", "^TestWhere$"}, foreignReport{Path: program + "/job.test", Note: "-"}},
		{"go test of a program", f.dir, []string{"go", "test", "-count=1", "-v", "."}, foreignReport{Path: program}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			want.Client, want.Node, want.Cgo = "linux/386", "linux/amd64", "0"
			want.Note, want.Tag = orElse(want.Note, "none"), orElse(want.Tag, "plain")
			if got := f.report(t, tt.dir, tt.args...); got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// TestSourcesAreNotThoseOfTheWorkingFolder starts a program without paths to its sources in a folder that has them,
// with a change. The program must not use these.
func TestSourcesAreNotThoseOfTheWorkingFolder(t *testing.T) {
	f := newForeignProgram(t)
	f.run(t, f.dir, "go", "build", "-trimpath", "-o", "trimmed", ".")
	f.write(t, "job/planted.go", "package job\n\nfunc init() { panic(\"of the working folder\") }\n")
	got := f.report(t, f.dir, f.dir+"/trimmed")
	for _, part := range []string{
		"cannot find the sources of this program", "built with -trimpath", "give Open gputrain.WithSourceDir",
		"CGO_ENABLED=0 go build -o worker example.com/foreign", `gputrain.WithWorkerBinary("worker")`,
	} {
		if !strings.Contains(got.Error, part) {
			t.Errorf("%q does not contain %q", got.Error, part)
		}
	}
}

func orElse(s, or string) string {
	switch s {
	case "":
		return or
	case "-":
		return ""
	}
	return s
}

// TestFunctionsRunFromAReleasedVersion runs a program by its module's version, from a proxy that is a folder. Its
// sources are only in the module cache.
func TestFunctionsRunFromAReleasedVersion(t *testing.T) {
	f := newForeignProgram(t)
	proxy, elsewhere := t.TempDir(), t.TempDir()
	library := map[string]string{}
	listed := func(patterns ...string) []string {
		return strings.Fields(string(f.run(t, ".", append([]string{"git", "ls-files", "-co", "--exclude-standard", "--"}, patterns...)...)))
	}
	nested := listed("*/go.mod") // modules of their own, which are not part of this module's versions
	for _, name := range listed("*.go", "*.sh", "*sshd_config", "go.mod", "internal", "providers") {
		other := slices.ContainsFunc(nested, func(mod string) bool { return strings.HasPrefix(name, strings.TrimSuffix(mod, "go.mod")) })
		if !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "/testdata/") && !other {
			library[name] = e2etest.ReadText(t, name)
		}
	}
	publish(t, proxy, libraryPath, "v0.0.1", library)
	program := map[string]string{"go.mod": strings.Replace(e2etest.ReadText(t, "go.mod"), "module "+libraryPath, "module example.com/foreign", 1) +
		"\nrequire " + libraryPath + " v0.0.1\n"}
	for _, name := range []string{"main.go", "run.go", "job/job.go", "job/plain.go"} {
		program[name] = e2etest.ReadText(t, filepath.Join(f.dir, name))
	}
	publish(t, proxy, "example.com/foreign", "v1.0.0", program)

	modules := strings.TrimSpace(string(f.run(t, ".", "go", "env", "GOMODCACHE")))
	f.env = append(f.env, "GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw", "GOSUMDB=off",
		"GOPROXY=file://"+proxy+",file://"+modules+"/cache/download")
	want := foreignReport{Client: "linux/386", Node: "linux/amd64", Path: "example.com/foreign", Note: "none", Tag: "plain", Cgo: "0"}
	if got := f.report(t, elsewhere, "go", "run", "-trimpath", "example.com/foreign@v1.0.0"); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// publish adds a module's version to a folder that serves as a proxy.
func publish(t *testing.T, proxy, module, version string, files map[string]string) {
	t.Helper()
	dir := filepath.Join(proxy, module, "@v")
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for name, text := range files {
		w, err := z.Create(module + "@" + version + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	e2etest.WriteText(t, filepath.Join(dir, "list"), version+"\n")
	e2etest.WriteText(t, filepath.Join(dir, version+".info"), fmt.Sprintf(`{"Version":%q}`, version))
	e2etest.WriteText(t, filepath.Join(dir, version+".mod"), files["go.mod"])
	e2etest.WriteText(t, filepath.Join(dir, version+".zip"), packed.String())
}

// TestFunctionsRunOnAnotherProcessor uses nodes with another processor architecture. An emulator runs the worker.
func TestFunctionsRunOnAnotherProcessor(t *testing.T) {
	const emulator = "qemu-aarch64-static"
	qemu, err := exec.LookPath(emulator)
	if err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_QEMU") != "" {
			t.Fatal("GPUTRAIN_REQUIRE_QEMU is set: ", err)
		}
		t.Skip("no ", emulator, " on this machine: install qemu-user-static")
	}
	f := newForeignProgram(t)
	path := nodeTools(t, "aarch64", fmt.Sprintf(`for to; do :; done
/bin/mv "$@" || exit
case $to in
*/bin/????????????????????????????????????????????????????????????????)
	/bin/mv "$to" "$to.arm64" && printf '#!/bin/sh\nexec %s %%s "$@"\n' "$to.arm64" >"$to" && chmod 700 "$to"
esac
`, qemu))
	f.env = append(f.env, "GOARCH=amd64", "PATH="+path)
	want := foreignReport{Client: "linux/amd64", Node: "linux/arm64", Path: "example.com/foreign", Note: "none", Tag: "plain", Cgo: "0"}
	if got := f.report(t, f.dir, "go", "run", "."); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// nodeTools returns a PATH in which uname reports another machine, mv is the given script, and perl fails, as it would
// report the real machine.
func nodeTools(t *testing.T, machine, mv string) string {
	t.Helper()
	dir := t.TempDir()
	tools := map[string]string{"uname": "case $1 in\n-m) echo " + machine + " ;;\n*) exec /bin/uname \"$@\" ;;\nesac\n", "mv": mv, "perl": "exit 1\n"}
	for name, text := range tools {
		if text == "" {
			continue
		}
		e2etest.WriteText(t, filepath.Join(dir, name), "#!/bin/sh\n"+text)
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir + string(os.PathListSeparator) + os.Getenv("PATH")
}

// TestFunctionsRunWithoutTheClientsLibraries runs a program that is linked with a C library that the nodes lack. They
// may lack even libc. The nodes run the same program without C code.
func TestFunctionsRunWithoutTheClientsLibraries(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no C compiler on this machine: install gcc")
	}
	f := newForeignProgram(t)
	f.write(t, "lib/answer.c", "int answer(void) { return 42; }\n")
	f.run(t, f.dir+"/lib", "gcc", "-shared", "-fPIC", "-o", "libforeign.so", "answer.c")
	f.write(t, "job/native.go", `//go:build cgo

package job

// #cgo LDFLAGS: -L${SRCDIR}/../lib -lforeign
// int answer(void);
import "C"

func init() {
	if C.answer() != 42 {
		panic("it does not know")
	}
}
`)
	f.env = append(f.env, "GOARCH=amd64", "CGO_ENABLED=1", "LD_LIBRARY_PATH="+f.dir+"/lib")
	want := foreignReport{Client: "linux/amd64", Node: "linux/amd64", Path: "example.com/foreign", Note: "none", Tag: "plain", Cgo: "0"}
	if got := f.report(t, f.dir, "go", "run", "."); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	f.run(t, f.dir, "go", "build", "-o", "native", ".")
	f.env = append(f.env, "PATH="+t.TempDir()+":/usr/bin:/bin", "GOROOT=")
	if _, err := os.Stat("/usr/bin/go"); err == nil {
		t.Skip("go is among the system's own programs")
	}
	got := f.report(t, f.dir, f.dir+"/native")
	for _, part := range []string{"the node cannot run this program", "libforeign.so", "no go command", "CGO_ENABLED=0 go build -o worker example.com/foreign", "WithWorkerBinary"} {
		if !strings.Contains(got.Error, part) {
			t.Errorf("%q does not contain %q", got.Error, part)
		}
	}
}

// TestWithoutAToolchainTheCommandIsNamed uses a node of another platform, without a toolchain to build for it. The
// error names the command to run, and the given worker binaries, which do not fit.
func TestWithoutAToolchainTheCommandIsNamed(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tools := nodeTools(t, "riscv64", "")
	if _, err := os.Stat("/usr/bin/go"); err == nil {
		t.Skip("go is among the system's own programs")
	}
	dir, _, _ := strings.Cut(tools, string(os.PathListSeparator))
	t.Setenv("PATH", dir+":/usr/sbin:/usr/bin:/sbin:/bin")
	t.Setenv("GOROOT", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var mu sync.Mutex
	var phases []string
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithWorkerBinary(self), gputrain.WithEvents(func(e gputrain.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == gputrain.EventPhase && e.Node == -1 {
			phases = append(phases, e.Phase+" "+e.State)
		}
	}))
	for range 3 { // a failure is remembered for a while
		_, err = e2etest.Norm.Run(pool, e2etest.Point{X: 1, Y: 2})
	}
	var te *gputrain.TaskError
	if !errors.Is(err, gputrain.ErrUnsupported) || !errors.As(err, &te) || te.Cause != gputrain.CauseNeverStarted {
		t.Errorf("got %v", err)
	}
	for _, part := range []string{
		"the node is linux/riscv64", "this program is for " + runtime.GOOS + "/" + runtime.GOARCH, "WithWorkerBinary names " + self + " (" + runtime.GOOS,
		"no go command", "GOOS=linux GOARCH=riscv64 CGO_ENABLED=0 go test -c -o worker", libraryPath, `gputrain.WithWorkerBinary("worker")`,
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not contain %q", err, part)
		}
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if want := []string{"build for linux/riscv64 started", "build for linux/riscv64 failed"}; !slices.Equal(phases, want) {
		t.Errorf("the events have the phases %q", phases)
	}
}

// TestAWorkerBinaryOfTheNodesPlatformServes gives two worker binaries, one of which fits.
func TestAWorkerBinaryOfTheNodesPlatformServes(t *testing.T) {
	f := newForeignProgram(t)
	f.write(t, "run.go", strings.Replace(strings.Replace(foreignRun, "job.Run(ctx, where)", `job.Run(ctx, where, gputrain.WithWorkerBinary("other"), gputrain.WithWorkerBinary("fitting"))`, 1),
		"example.com/foreign/job\"", "example.com/foreign/job\"\n\t\"github.com/gputrain/gputrain\"", 1))
	f.run(t, f.dir, "go", "build", "-o", "other", ".")
	f.env = append(f.env, "GOARCH=amd64", "CGO_ENABLED=0")
	f.run(t, f.dir, "go", "build", "-trimpath", "-ldflags=-X main.note=given", "-o", "fitting", ".")
	got := f.report(t, f.dir, f.dir+"/other")
	if got.Error != "" || got.Note != "given" || got.Node != "linux/amd64" {
		t.Errorf("got %+v", got)
	}
}

func TestASourceDirIsLookedAtFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	e2etest.WriteText(t, file, "")
	for dir, want := range map[string]string{file: "is not a folder", file + "-gone": "no such file"} {
		if _, err := gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{}, gputrain.WithSourceDir(dir)); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", dir, err)
		}
	}
}

func TestAWorkerBinaryIsLookedAtFirst(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	e2etest.WriteText(t, script, "#!/bin/sh\n")
	for name, want := range map[string]string{
		script: "not a program for a known platform: it is a script", script + "-gone": "no such file", filepath.Dir(script): "is not a file",
	} {
		opened := false
		w := &e2etest.Wrapped{Provider: local.Config{}, OnOpen: func(context.Context) error { opened = true; return nil }}
		_, err := gputrain.Open(t.Context(), w, gputrain.Spec{}, gputrain.WithWorkerBinary(name))
		if !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), want) || opened {
			t.Errorf("%s: got %v; the provider was opened: %v", name, err, opened)
		}
	}
}
