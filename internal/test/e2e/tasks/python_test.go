package tasks

import (
	"archive/zip"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/local"
)

// wheel writes a package of one module to a folder, and returns the folder.
func wheel(t *testing.T, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := os.Create(filepath.Join(dir, name+"-1.0-py3-none-any.whl"))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	info := name + "-1.0.dist-info/"
	for _, file := range [][2]string{
		{name + ".py", "answer = 42\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", name + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	} {
		w, err := z.Create(file[0])
		if err == nil {
			_, err = w.Write([]byte(file[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A pool's tasks have the packages of a requirements.txt, and of the file that it includes. Their lines come as they are
// printed.
func TestPythonOfRequirements(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it makes an environment with pip")
	}
	if err := exec.Command("python3", "-c", "import venv, ensurepip").Run(); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_PYTHON") != "" {
			t.Fatal("no python3 with venv and ensurepip on this machine: install python3-venv")
		}
		t.Skip("no python3 with venv and ensurepip on this machine: install python3-venv")
	}
	dir := files(t, map[string]string{"requirements.txt": "-r more.txt\n", "more.txt": "tinydist\n"})
	var mu sync.Mutex
	var states []string
	pool := e2etest.Open(t, gputrain.Spec{Image: gputrain.Image{
		Before:       []string{"echo before >order"},
		Requirements: filepath.Join(dir, "requirements.txt"),
		Env:          map[string]string{"UV_OFFLINE": "1", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheel(t, "tinydist")},
		Setup:        []string{"python -c 'import tinydist; print(tinydist.answer)' >>order"},
	}}, gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventPhase && e.State == "done" {
			mu.Lock()
			defer mu.Unlock()
			states = append(states, e.Phase)
		}
	}))
	task := gputrain.Script("cat order; python -c 'import os, tinydist; print(tinydist.answer, os.environ[\"PYTHONUNBUFFERED\"])'")
	r, err := pool.Run(task)
	if err != nil || string(r.Stdout) != "before\n42\n42 1\n" {
		t.Errorf("got %q, %v", r.Stdout, err)
	}
	task.Env = map[string]string{"PYTHONUNBUFFERED": ""}
	if r, err := pool.Run(task); err != nil || string(r.Stdout) != "before\n42\n42 \n" {
		t.Errorf("got %q, %v", r.Stdout, err)
	}
	if err := pool.Close(); err != nil { // all events have come
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"before 1/1", "python", "pip", "setup 1/1"}; !slices.Equal(states, want) {
		t.Errorf("phases %q, want %q", states, want)
	}
}

// What cannot be installed is refused before anything is launched.
func TestRequirementsThatAreRefused(t *testing.T) {
	dir := files(t, map[string]string{"requirements.txt": "-r missing.txt\n", "pyproject.toml": ""})
	for name, want := range map[string]string{"requirements.txt": "missing.txt", "pyproject.toml": "uv lock", "nothing.txt": "nothing.txt"} {
		state := t.TempDir()
		_, err := gputrain.Open(t.Context(), local.Config{Dir: state}, gputrain.Spec{Image: gputrain.Image{Requirements: filepath.Join(dir, name)}})
		if !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		e2etest.WantEmpty(t, state)
	}
}
