package registrytest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A Content is the set of programs in an image.
type Content int

const (
	// Busybox is a system of busybox alone, with all its commands.
	Busybox Content = iota
	// NoShell is busybox under no other name than its own.
	NoShell
)

// archive returns a tar archive of the content.
func (c Content) archive(t testing.TB) []byte {
	t.Helper()
	root := t.TempDir()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_DOCKER") != "" {
			t.Fatalf("%v, and GPUTRAIN_REQUIRE_DOCKER is set: install busybox", err)
		}
		t.Skipf("%v: install busybox", err)
	}
	err = errors.Join(copyProgram(busybox, filepath.Join(root, "bin/busybox")),
		os.Mkdir(filepath.Join(root, "tmp"), 0o777), os.Mkdir(filepath.Join(root, "root"), 0o700), os.Mkdir(filepath.Join(root, "etc"), 0o755))
	libraries, _ := exec.Command("ldd", busybox).Output() // none, if it is static
	for _, word := range strings.Fields(string(libraries)) {
		if strings.HasPrefix(word, "/") {
			err = errors.Join(err, copyProgram(word, filepath.Join(root, word)))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
	if c == Busybox {
		names, err := exec.Command(busybox, "--list").Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(string(names)) {
			if name == "busybox" {
				continue
			}
			if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	archive, err := exec.Command("tar", "-C", root, "-cf", "-", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

func copyProgram(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o755))
}
