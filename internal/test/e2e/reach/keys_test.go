//go:build unix

package reach

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/container"
)

// The user's own key logs in, and is gone from the user's own host afterwards.
func TestAuthorizedKeys(t *testing.T) {
	client := opensshtest.Client(t, "ssh")
	file, public := newKey(t)
	spec := gputrain.Spec{AuthorizedKeys: []string{public}}
	login := func(t *testing.T, pool *gputrain.Compute) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "c")
		if err := pool.WriteSSHConfig(path); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "IdentityFile") {
				line = "\tIdentityFile \"" + file + "\"\n"
			}
			lines = append(lines, line)
		}
		mine := filepath.Join(t.TempDir(), "mine") // the user's own file, with the user's own key
		e2etest.WriteText(t, mine, strings.Join(lines, ""))
		if out, err := program(t, client, "-F", mine, "node-0", "echo let in"); out != "let in" || err != nil {
			t.Errorf("%q, %v", out, err)
		}
	}
	t.Run("local", func(t *testing.T) { login(t, e2etest.Open(t, spec)) })
	t.Run("container", func(t *testing.T) {
		e2etest.NeedDocker(t)
		if testing.Short() {
			t.Skip("scripts/test -deep runs it: containers take seconds")
		}
		login(t, e2etest.OpenContainers(t, container.Config{}, spec))
	})
	for name, before := range map[string]string{"own host": "-", "own host with keys": "# mine\nssh-ed25519 AAAA me", "own host with a folder": ""} {
		t.Run(name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			keys := filepath.Join(home, ".ssh", "authorized_keys")
			if before != "-" {
				e2etest.WriteText(t, filepath.Join(home, ".ssh", "other"), "")
			}
			if before != "-" && before != "" {
				e2etest.WriteText(t, keys, before)
			}
			h := e2etest.NewHostAt(t, home)
			pool := e2etest.OpenHosts(t, spec, nil, h)
			text, err := os.ReadFile(keys)
			fields := strings.Fields(public)
			if err != nil || !strings.Contains(string(text), "\n"+fields[0]+" "+fields[1]+" gputrain:"+pool.Nodes()[0].Name) && before != "-" && before != "" {
				t.Errorf("the file has %q, %v", text, err)
			}
			if info, err := os.Stat(keys); err != nil || before == "-" && info.Mode() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			if err := pool.Close(); err != nil {
				t.Fatal(err)
			}
			text, err = os.ReadFile(keys)
			switch {
			case before == "-" || before == "":
				if !errors.Is(err, os.ErrNotExist) {
					t.Errorf("after Close the file has %q, %v", text, err)
				}
			case strings.TrimSpace(string(text)) != before:
				t.Errorf("after Close the file has %q, %v", text, err)
			}
		})
	}
}

func TestAuthorizedKeysAreChecked(t *testing.T) {
	file, public := newKey(t)
	private, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"a private key": string(private), "garbage": "hunter2 is my password", "nothing": "", "a comment": "# " + public, "a fingerprint": "SHA256:AAAA",
		"options": `command="rm -rf /" ` + public, "two keys": public + "\n" + public, "a line after it": public + "\n# x",
	} {
		err := gputrain.Spec{AuthorizedKeys: []string{public, bad}}.Validate()
		if !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "AuthorizedKeys[1]") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), strings.Split(string(private), "\n")[1])) {
			t.Errorf("%s: the error shows what may be a secret: %v", name, err)
		}
	}
	if err := (gputrain.Spec{AuthorizedKeys: []string{public, public + "\n"}}).Validate(); err != nil {
		t.Errorf("good keys: %v", err)
	}
}
