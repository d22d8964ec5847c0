package colab_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain/providers/colab"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestBootstrapCell(t *testing.T) {
	empty, err := colab.BootstrapCell("")
	must(t, err)
	tricky := exampleKey + ` it's "mine" \ <&>`
	for _, key := range []string{exampleKey, "\t" + exampleKey + "\n", tricky} {
		text, err := colab.BootstrapCell(key)
		must(t, err)
		if len(text) <= len(empty) || strings.Contains(text, `PUBLIC_KEY = ""`) {
			t.Errorf("the cell for %q has no key", key)
		}
		if strings.Count(text, "\nI_MAY_AUTOMATE_THIS_RUNTIME = False\n") != 1 {
			t.Errorf("the cell's switch is not off")
		}
		if got := python(t, text[:strings.Index(text, "import ")]+"print(PUBLIC_KEY, end='')"); got != strings.TrimSpace(key) {
			t.Errorf("Python reads %q for %q", got, key)
		}
	}
	for key, says := range map[string]string{
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----": "private key",
		exampleKey + "\n" + exampleKey: "line break",
		exampleKey + " ключ":           "non-ASCII",
		exampleKey[:40]:                "whole public key",
		exampleFingerprint:             "public key",
	} {
		if text, err := colab.BootstrapCell(key); text != "" || !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("for %q: %v; want a word on %q", key, err, says)
		}
	}
}

// The cell's text is valid Python, with and without a key.
func TestCellCompiles(t *testing.T) {
	for _, key := range []string{"", exampleKey} {
		text, err := colab.BootstrapCell(key)
		must(t, err)
		file := filepath.Join(t.TempDir(), "cell.py")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if out, err := exec.Command(interpreter(t), "-W", "error", "-m", "py_compile", file).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// python runs a program and returns its output.
func python(t *testing.T, program string) string {
	t.Helper()
	out, err := exec.Command(interpreter(t), "-c", program).Output()
	must(t, err)
	return string(out)
}

// interpreter returns the path of the Python interpreter.
func interpreter(t *testing.T) string {
	t.Helper()
	path, err := findPython()
	if err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_PYTHON") != "" {
			t.Fatal("no python3 on this machine, and GPUTRAIN_REQUIRE_PYTHON is set: install it")
		}
		t.Skip("no python3 on this machine: install it")
	}
	return path
}

// findPython asks Python itself: the one in PATH may be a launcher that looks below HOME.
var findPython = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	return strings.TrimSpace(string(out)), err
})

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// script writes an executable shell script.
func script(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
}
