package tasks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// TestWrittenOnWindows has scripts with carriage returns fail with a hint at them, whoever runs them: the task's own text, a file
// whose interpreter is missing, and one that a shell reads. Scripts without carriage returns get no hint.
func TestWrittenOnWindows(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 1})
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bash.sh":   "#!/bin/bash\necho hi\nexit 3\n",
		"env.sh":    "#!/usr/bin/env bash\necho hi\nexit 3\n",
		"for.sh":    "if true; then\n\techo hi\nfi\nexit 3\n",
		"python.py": "#!/usr/bin/env python3\nraise SystemExit(3)\n",
	} {
		for folder, text := range map[string]string{"unix": text, "windows": strings.ReplaceAll(text, "\n", "\r\n")} {
			file := filepath.Join(dir, folder, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, folder := range []string{"unix", "windows"} {
		if err := pool.Upload(filepath.Join(dir, folder), folder); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"./D/bash.sh", "D/env.sh --epochs 3", "sh D/for.sh", "bash D/for.sh", "./D/python.py", "bash D/bash.sh"} {
		for _, folder := range []string{"unix", "windows"} {
			line := strings.ReplaceAll(line, "D", folder)
			words := strings.Fields(line)
			for what, task := range map[string]gputrain.Task{"command": gputrain.Cmd(words[0], words[1:]...), "script": gputrain.Script(line)} {
				_, err := pool.Run(task)
				if err == nil || strings.Contains(err.Error(), "written on Windows?") != (folder == "windows") {
					t.Errorf("%s %q: %v", what, line, err)
				}
			}
		}
	}
	for text, want := range map[string]bool{"set -e\r\necho hi\r\nexit 3\r\n": true, "cd /nowhere\r\n": true, "no-such-program\necho 'a\r' >&2; exit 3": false, "exit 3": false} {
		_, err := pool.Run(gputrain.Script(text))
		if err == nil || strings.Contains(err.Error(), "written on Windows?") != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}
