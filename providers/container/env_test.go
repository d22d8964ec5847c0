package container

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The engine's command sees the variables that engines need and that Config names, and no
// credentials of this program.
func TestEngineSeesNoCredentials(t *testing.T) {
	dir := t.TempDir()
	seen := filepath.Join(dir, "seen")
	fake := "#!/bin/sh\nenv >>'" + seen + "'\ncase $1 in --version) echo 'Docker version 28.0.0, build fake' ;; *) exit 1 ;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, key := range []string{"AWS_SECRET_ACCESS_KEY", "RUNPOD_API_KEY", "HF_TOKEN", "WANDB_API_KEY", "DOCKER_PASSWORD", "GOOGLE_APPLICATION_CREDENTIALS", "GIVEN"} {
		t.Setenv(key, "hunter2")
	}
	for _, name := range []string{"DOCKER_HOST", "FROM_RUN", "FROM_RUN_TOO", "MY_PROXY_USER"} {
		t.Setenv(name, "wanted")
	}
	cfg := Config{RunArgs: []string{"-e", "FROM_RUN", "--env=FROM_RUN_TOO", "--env", "GIVEN=here"}, PassEnv: []string{"MY_PROXY_*"}}
	if _, err := cfg.Open(t.Context()); err == nil {
		t.Error("the fake engine knows nothing of itself")
	}
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if strings.Contains(string(text), "hunter2") {
		t.Errorf("it sees\n%s", text)
	}
	for _, want := range []string{"DOCKER_HOST=wanted", "FROM_RUN=wanted", "FROM_RUN_TOO=wanted", "MY_PROXY_USER=wanted", "HOME=" + os.Getenv("HOME")} {
		if !slices.Contains(lines, want) {
			t.Errorf("it does not see %s", want)
		}
	}
}
