package crossbuild

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// commandLine is the import path of a program that was given as files: go run main.go.
const commandLine = "command-line-arguments"

// A Program describes how a program was built.
type Program struct {
	// Info is Go's build information: main package, modules, flags.
	Info *debug.BuildInfo
	// Test is true for the binary of a package's tests.
	Test bool
	// Files are the sources of the main package, or of the tested one, that have code in the
	// program. Their names are those that the compiler saw: not absolute after -trimpath.
	Files []string
	// Built is when the program was linked. Newer sources are not the program's.
	Built time.Time
	// SourceDir is a folder of the module that the caller names and is responsible for. If it is
	// not empty, it replaces what the program knows of its sources.
	SourceDir string
}

var errNoInfo = errors.New("this program has no build information, so its package is unknown: it was not built by the go command in module mode")

// Running describes the running program.
func Running() (*Program, error) { return running() }

// started is close to when the process was.
var started = time.Now()

var running = sync.OnceValues(func() (*Program, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Path == "" {
		return nil, errNoInfo
	}
	p := &Program{Info: info, Built: started}
	p.Test, p.Files = ownSources(info.Path)
	if exe, err := os.Executable(); err == nil {
		if linked, err := os.Stat(exe); err == nil && !reused.MatchString(filepath.Dir(exe)) && linked.ModTime().Before(started) {
			p.Built = linked.ModTime()
		}
	}
	return p, nil
})

// reused matches folders of Go's build cache from which "go run" starts a program again. It has
// just compared the sources, so the file's time has no meaning.
var reused = regexp.MustCompile(`[/\\][0-9a-f]{64}-d$`)

// packagePath is the import path of the main package, or of the tested one.
func (p *Program) packagePath() string {
	if p.Test {
		return strings.TrimSuffix(p.Info.Path, ".test")
	}
	return p.Info.Path
}

// byFiles reports whether the program was given as files.
func (p *Program) byFiles() bool { return p.packagePath() == commandLine }

// released reports whether the program was built from a released version of its module, as by "go
// run module/cmd@v1.2.3".
func (p *Program) released() bool { return p.Info.Main.Sum != "" }

// ownSources goes through the program's functions, and returns the sources of its main package or,
// in a test binary, of the tested package.
func ownSources(infoPath string) (test bool, files []string) {
	var ours, tested []string
	testedPath := symbolPrefix(strings.TrimSuffix(infoPath, ".test"))
	for from, to := range functions() {
		name, file := outermost(from)
		switch {
		case name == "main.main" && filepath.Base(file) == "_testmain.go":
			test = true
		case strings.HasPrefix(name, "main."):
			ours = appendSources(ours, from, to, "main.")
		case strings.HasPrefix(name, testedPath+".") || strings.HasPrefix(name, testedPath+"_test."):
			tested = appendSources(tested, from, to, testedPath)
		}
	}
	if test {
		ours = tested
	}
	slices.Sort(ours)
	return test, ours
}

// functions yields the addresses at which each function of the program begins and ends, from the
// last to the first. For an address between two functions, the runtime's tables return the earlier
// one.
func functions() func(yield func(from, to uintptr) bool) {
	pc, _, _, _ := runtime.Caller(0)
	return func(yield func(from, to uintptr) bool) {
		end, step := pc, uintptr(1<<16)
		for runtime.FuncForPC(end+step) != nil {
			end, step = end+step, 2*step
		}
		for ; step > 0; step /= 2 {
			if runtime.FuncForPC(end+step) != nil {
				end += step
			}
		}
		for f := runtime.FuncForPC(end); f != nil; f = runtime.FuncForPC(end) {
			if !yield(f.Entry(), end) {
				return
			}
			end = f.Entry() - 1
		}
	}
}

// outermost returns the function that an address belongs to, and its file, ignoring functions that
// are inlined there.
func outermost(pc uintptr) (name, file string) {
	for frames, more := runtime.CallersFrames([]uintptr{pc + 1}), true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		name, file = f.Function, f.File
	}
	return name, file
}

// appendSources adds the files of functions whose names have the prefix, including inlined
// functions.
func appendSources(files []string, from, to uintptr, prefix string) []string {
	width := uintptr(1)
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "386" && runtime.GOARCH != "s390x" {
		width = 4 // bytes of an instruction
	}
	for pc := from; pc <= to; pc += width {
		for frames, more := runtime.CallersFrames([]uintptr{pc + 1}), true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			base := filepath.Base(f.File)
			if strings.HasPrefix(f.Function, prefix) && strings.HasSuffix(base, ".go") && !strings.HasPrefix(base, "_") && !slices.Contains(files, f.File) {
				files = append(files, f.File)
			}
		}
	}
	return files
}

// symbolPrefix returns an import path in the form in which names of its functions begin: the linker
// escapes the dots of the last element, among others.
func symbolPrefix(path string) string {
	slash := strings.LastIndexByte(path, '/')
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c == '.' && i > slash || c == '%' || c == '"' || c >= 0x7f {
			const hex = "0123456789abcdef"
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
