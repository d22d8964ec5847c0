package childenv

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// keys are names of credentials in programs' environments. Some begin like the names in a list.
var keys = []string{
	"AWS_SECRET_ACCESS_KEY", "RUNPOD_API_KEY", "VAST_API_KEY", "HF_TOKEN", "WANDB_API_KEY", "OPENAI_API_KEY", "GITHUB_TOKEN", "GIT_TOKEN",
	"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_API_KEY", "GOPASS", "DOCKER_PASSWORD", "DOCKER_TOKEN", "CONTAINER_REGISTRY_TOKEN", "SSH_KEY", "PASSWORD",
}

func TestNoListHasAKey(t *testing.T) {
	for name, list := range map[string][]string{"System": System, "Network": Network, "Go": Go, "Containers": Containers} {
		for _, key := range keys {
			if names(list, key, false) || names(list, key, true) {
				t.Errorf("list %s has the credential %s", name, key)
			}
		}
	}
}

func TestSelect(t *testing.T) {
	environ := []string{"PATH=/bin", "LC_ALL=C", "EMPTY", "HF_TOKEN=x", "DOCKER_HOST=ssh://a=b", "=C:=C:\\", "GOFLAGS=-v"}
	if got := Select(environ, System, Containers); !slices.Equal(got, []string{"PATH=/bin", "LC_ALL=C", "DOCKER_HOST=ssh://a=b"}) {
		t.Errorf("Select kept %q", got)
	}
	if got := Select(environ); got == nil || len(got) > 0 {
		t.Errorf("without a list Select returned %#v", got)
	}
}

func TestCaseOnWindows(t *testing.T) {
	for _, name := range []string{"Path", "SYSTEMROOT", "commonprogramfiles(x86)"} {
		if !names(System, name, true) || names(System, name, false) {
			t.Errorf("%s", name)
		}
	}
}

// TestACommandSeesWhatIsChosen starts a real command.
func TestACommandSeesWhatIsChosen(t *testing.T) {
	for _, key := range keys {
		t.Setenv(key, "hunter2")
	}
	t.Setenv("DOCKER_HOST", "unix:///here.sock")
	cmd := exec.Command("env")
	cmd.Env = Of(System, Network, Go, Containers)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if s := string(out); strings.Contains(s, "hunter2") || !strings.Contains(s, "DOCKER_HOST=unix:///here.sock\n") || !strings.Contains(s, "\nPATH=") && !strings.HasPrefix(s, "PATH=") {
		t.Errorf("the command sees\n%s", s)
	}
}
