package tasks

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

var dotted = gputrain.Func("dotted", func(context.Context, struct{}) (string, error) {
	return os.Getenv("image.setting") + " " + os.Getenv("pool.secret"), nil
})

// TestDottedNames has variables with a dot in their names reach commands, scripts, functions and gangs. mpirun's programs would
// not get them, and a training says so before it starts.
func TestDottedNames(t *testing.T) {
	pool, err := gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{
		Nodes: 2, Image: gputrain.Image{Env: map[string]string{"image.setting": "one"}}, Secrets: map[string]gputrain.Secret{"pool.secret": "zwei"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if got, err := dotted.Run(pool, struct{}{}); err != nil || got != "one zwei" {
		t.Errorf("a function: %q, %v", got, err)
	}
	script := gputrain.Task{Script: "env | grep '^[a-z]*[.]' | tr 'a-z' 'A-Z'"} // else the secret would be redacted
	script.Env, script.Secrets = map[string]string{"my.setting": "three"}, map[string]gputrain.Secret{"my.secret": "vier"}
	wants := []string{"IMAGE.SETTING=ONE", "POOL.SECRET=ZWEI", "MY.SETTING=THREE", "MY.SECRET=VIER"}
	command := script
	command.Script, command.Args = "", []string{"sh", "-c", script.Script}
	for name, task := range map[string]gputrain.Task{"a script": script, "a command": command} {
		result, err := pool.Run(task)
		for _, want := range wants {
			if err != nil || !strings.Contains(string(result.Stdout), want+"\n") {
				t.Errorf("%s lacks %s: %q, %v", name, want, result.Stdout, err)
			}
		}
	}
	for name, task := range map[string]gputrain.Task{"a script": script, "a command": command} {
		trained, err := pool.Train(gputrain.Training{Task: task})
		if err != nil {
			t.Errorf("a gang of %s: %v", name, err)
			continue
		}
		for _, want := range wants {
			if out := trained.Ranks[1].Stdout; !strings.Contains(string(out), want+"\n") {
				t.Errorf("a gang of %s lacks %s: %q", name, want, out)
			}
		}
	}
	if _, err := pool.Train(gputrain.Training{Task: script, Launcher: gputrain.MPI}); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), `"my.secret" has a dot`) && !strings.Contains(err.Error(), `"my.setting" has a dot`) {
		t.Errorf("MPI: %v", err)
	}
}
