//go:build unix

package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/strangertest"
)

// End runs what pools have left in the home, and keeps the home as long as that fails.
func TestEndRunsWhatIsLeft(t *testing.T) {
	dir := t.TempDir()
	home := Home(filepath.Join(dir, "a [home]*"))
	folder := filepath.Join(string(home), ".gputrain", "pools", "p-1", "t")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	text := "pwd >'" + dir + "/ran'; [ -e '" + dir + "/may' ] || { echo not yet; exit 1; }\n"
	if err := os.WriteFile(filepath.Join(folder, "end.sh"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := Left(Config{Name: "one", Home: home})
	if err := End(t.Context(), m); err == nil || !strings.Contains(err.Error(), "not yet") || !home.Exists() {
		t.Errorf("got %v, and the home exists: %v", err, home.Exists())
	}
	if got, err := os.ReadFile(filepath.Join(dir, "ran")); strings.TrimSpace(string(got)) != folder {
		t.Errorf("it ran in %q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "may"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := End(t.Context(), m); err != nil || home.Exists() {
		t.Errorf("got %v, and the home exists: %v", err, home.Exists())
	}
}

// What pools have left runs in the environment of the machine's commands, not in this program's, and what it has started
// ends with it.
func TestWhatIsLeftRunsOnTheMachine(t *testing.T) {
	t.Setenv("EXAMPLE_API_KEY", "secret")
	dir := t.TempDir()
	home, program := Home(filepath.Join(dir, "home")), filepath.Join(dir, "remove-it")
	folder := filepath.Join(string(home), ".gputrain", "pools", "p-1", "t")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	text := "#!/bin/sh\necho \"$HOME ${EXAMPLE_API_KEY-none}\" >'" + dir + "/ran'\nsleep 600 >/dev/null 2>&1 &\necho $! >'" + dir + "/pid'\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "end.sh"), []byte("remove-it"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := Left(Config{Name: "one", Home: home, Env: []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, Mark: "MACHINE_TEST=" + dir})
	if err := End(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "ran")); string(got) != string(home)+" none\n" {
		t.Errorf("its environment is %q, %v", got, err)
	}
	started, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(started)))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "end of the process", func() bool { return !strangertest.Lives(t, pid) })
}
