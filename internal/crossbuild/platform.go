package crossbuild

import (
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// A Platform is an operating system and an architecture, in Go's words.
type Platform struct{ OS, Arch string }

// Here returns the platform of this program.
func Here() Platform { return Platform{runtime.GOOS, runtime.GOARCH} }

// String returns "linux/arm64".
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// A Format describes a program's file.
type Format struct {
	Platform
	// Interpreter is the dynamic loader that the program needs, or "" for a static program. It is
	// only determined for Linux.
	Interpreter string
}

// maxInterpreter bounds the path of a loader, as systems bound paths.
const maxInterpreter = 4096

// Identify determines the platform of a program. The error says why a file is not a program.
func Identify(name string) (Format, error) {
	f, err := os.Open(name)
	if err != nil {
		return Format{}, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return Format{}, errors.Join(err, fmt.Errorf("%s is not a file", name))
	}
	format, err := header(f)
	if err != nil {
		return Format{}, fmt.Errorf("%s is not a program for a known platform: %w", name, err)
	}
	// The header identifies the family of systems, and Go's build information the system itself.
	if info, err := buildinfo.Read(f); err == nil {
		if goos := setting(info, "GOOS"); goos != "" {
			format.OS = goos
		}
	}
	return format, nil
}

func header(r io.ReaderAt) (Format, error) {
	magic := make([]byte, 4)
	if _, err := r.ReadAt(magic, 0); err != nil {
		return Format{}, errors.New("it is too short")
	}
	switch {
	case string(magic) == elf.ELFMAG:
		return elfFormat(r)
	case string(magic[:2]) == "MZ":
		f, err := pe.NewFile(r)
		if err != nil {
			return Format{}, err
		}
		return platformOf("windows", f.Machine, map[uint16]string{
			pe.IMAGE_FILE_MACHINE_AMD64: "amd64", pe.IMAGE_FILE_MACHINE_ARM64: "arm64", pe.IMAGE_FILE_MACHINE_I386: "386",
		})
	case string(magic[:2]) == "#!":
		return Format{}, errors.New("it is a script")
	}
	f, err := macho.NewFile(r)
	if err != nil {
		return Format{}, errors.New("it is not an ELF, Mach-O or PE file")
	}
	return platformOf("darwin", f.Cpu, map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"})
}

func elfFormat(r io.ReaderAt) (Format, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return Format{}, err
	}
	little := f.ByteOrder.String() == "LittleEndian"
	archs := map[elf.Machine]string{
		elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_386: "386", elf.EM_ARM: "arm",
		elf.EM_RISCV: "riscv64", elf.EM_LOONGARCH: "loong64", elf.EM_S390: "s390x", elf.EM_PPC64: "ppc64",
	}
	if little {
		archs[elf.EM_PPC64] = "ppc64le"
	}
	format, err := platformOf("linux", f.Machine, archs)
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			path, readErr := io.ReadAll(io.LimitReader(p.Open(), maxInterpreter+1))
			if len(path) > maxInterpreter {
				return Format{}, fmt.Errorf("it names an interpreter of more than %d bytes", maxInterpreter)
			}
			format.Interpreter, err = strings.TrimRight(string(path), "\x00"), errors.Join(err, readErr)
		}
	}
	return format, err
}

func platformOf[M comparable](goos string, machine M, archs map[M]string) (Format, error) {
	arch, ok := archs[machine]
	if !ok {
		return Format{}, fmt.Errorf("it is for the processor %v", machine)
	}
	return Format{Platform: Platform{goos, arch}}, nil
}

// setting returns the value of one flag in a program's build information.
func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
