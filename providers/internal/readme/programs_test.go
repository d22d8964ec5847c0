package readme

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// README's programs compile as they stand, and the one that needs no cloud prints the
// output in its comment.
func TestProgramsOfREADME(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	programs, ran := 0, 0
	for _, block := range strings.Split(string(text), "```go\n")[1:] {
		source, _, closed := strings.Cut(block, "```")
		if !closed {
			t.Fatal("README has a code block without an end")
		}
		if !strings.HasPrefix(source, "package main\n") {
			continue
		}
		programs++
		file, program := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		build := exec.CommandContext(t.Context(), "go", "build", "-o", program, file)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("program %d of README: %v\n%s", programs, err, out)
		}
		if !strings.Contains(source, "local.Config{}") {
			continue
		}
		ran++
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		run := exec.CommandContext(ctx, program)
		run.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir())
		var stdout, stderr bytes.Buffer
		run.Stdout, run.Stderr = &stdout, &stderr
		err := run.Run()
		_, want, _ := strings.Cut(source, ") // [")
		want, _, _ = strings.Cut("["+want, "\n")
		if err != nil || strings.TrimSpace(stdout.String()) != want {
			t.Errorf("program %d of README: %v; it printed %q, and says that it prints %q\n%s", programs, err, stdout.String(), want, stderr.String())
		}
	}
	if programs < 2 || ran < 1 {
		t.Errorf("README has %d complete programs, of which %d run here; want one for a cloud and one for this machine", programs, ran)
	}
}
