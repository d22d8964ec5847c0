//go:build linux

package containers

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/local"
)

// spell returns a variable of its process with dashes between the letters: it has no secret as it is.
var spell = gputrain.Func("spell", func(_ context.Context, name string) (string, error) {
	return spelled(os.Getenv(name)), nil
})

func spelled(s string) string { return strings.Join(strings.Split(s, ""), "-") }

// shell text that prints $HF_TOKEN as spelled does.
const spellToken = `printf %s "$HF_TOKEN" | sed 's/./&-/g; s/-$//'`

// A secretPlace opens a pool with Spec.Secrets, and searches its nodes' disks.
type secretPlace struct {
	open   func(t *testing.T, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute
	search func(t *testing.T, pool *gputrain.Compute, text string) (files string)
}

// Phases, tasks and functions have the pool's secrets, and no file, process of another kind, record or message has.
func TestPoolSecrets(t *testing.T) {
	home := t.TempDir()
	grep := func(dir func() string) func(*testing.T, *gputrain.Compute, string) string {
		return func(t *testing.T, _ *gputrain.Compute, text string) string {
			cmd := exec.Command("grep", "-rlaF", "-f", "-", dir())
			cmd.Stdin = strings.NewReader(text + "\n")
			out, _ := cmd.Output()
			return string(out)
		}
	}
	var host *e2etest.OwnHost
	for name, place := range map[string]secretPlace{
		"local": {
			open: func(t *testing.T, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
				pool, err := gputrain.Open(t.Context(), local.Config{Dir: home}, spec, opts...)
				if err != nil {
					t.Fatal(err)
				}
				return pool
			},
			search: grep(func() string { return home }),
		},
		"hosts": {
			open: func(t *testing.T, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
				host = e2etest.NewHost(t)
				return e2etest.OpenHosts(t, spec, opts, host)
			},
			search: grep(func() string { return host.Home }),
		},
		"container": {
			open: func(t *testing.T, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
				e2etest.NeedDocker(t)
				return e2etest.OpenContainers(t, container.Config{}, spec, opts...)
			},
			search: func(t *testing.T, pool *gputrain.Compute, text string) string {
				cmd := exec.Command("docker", "exec", "--interactive", pool.Nodes()[0].ID, "grep", "-rlaF", "--exclude-dir=proc", "--exclude-dir=sys", "-f", "-", "/")
				cmd.Stdin = strings.NewReader(text + "\n")
				out, _ := cmd.Output()
				return string(out)
			},
		},
	} {
		t.Run(name, func(t *testing.T) { testPoolSecrets(t, place) })
	}
}

func testPoolSecrets(t *testing.T, place secretPlace) {
	const canary = "canary-1b77e0"
	secret, own := rand.Text(), rand.Text() // the program, which nodes have, does not contain them
	state, dir := t.TempDir(), t.TempDir()
	file, asked := filepath.Join(dir, "token"), filepath.Join(dir, "asked")
	e2etest.WriteText(t, file, secret)
	var told printed
	opts := append(told.options(), gputrain.WithStateDir(state), gputrain.WithOutput(&told, &told), gputrain.WithResultsDir(t.TempDir()))
	pool := place.open(t, gputrain.Spec{
		Concurrency: 2,
		Secrets:     map[string]gputrain.Secret{"HF_TOKEN": gputrain.Secret("cmd://echo once >>'" + asked + "'; cat '" + file + "'"), "OTHER": gputrain.Secret("literal://" + own)},
		Image:       gputrain.Image{Setup: []string{spellToken + " >phase", `echo "it has $HF_TOKEN"`}},
	}, opts...)
	closed := false
	defer func() {
		if !closed {
			pool.Close()
		}
	}()
	if got := e2etest.ReadText(t, asked); got != "once\n" {
		t.Errorf("the reference was looked up for each of %q", got)
	}

	says := func(task gputrain.Task, want string) {
		t.Helper()
		task.Name = canary
		r, err := pool.Run(task)
		told.all(err)
		if err != nil || string(r.Stdout) != want {
			t.Errorf("%q, %v; want %q", r.Stdout, err, want)
		}
	}
	says(gputrain.Script("cat phase; echo; "+spellToken), spelled(secret)+"\n"+spelled(secret))
	overrides := gputrain.Script(spellToken)
	overrides.Secrets = map[string]gputrain.Secret{"HF_TOKEN": gputrain.Secret(own)}
	says(overrides, spelled(own))
	if got, err := spell.Run(pool, "HF_TOKEN"); err != nil || got != spelled(secret) {
		t.Errorf("a function has %q, %v", got, err)
	}
	both := gputrain.Cmd("true")
	both.Env = map[string]string{"OTHER": "x"}
	if _, err := pool.Run(both); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "OTHER is in both Env and Spec.Secrets") {
		t.Errorf("a name that is in Env too: %v", err)
	}

	waits := gputrain.Script(`echo "` + canary + `" >kept; mkfifo wait; echo "$HF_TOKEN" | wc -c; read -r x <wait`)
	job := pool.Start(waits)
	fail := gputrain.Script(`echo "it failed with $HF_TOKEN" >&2; exit 3`)
	fail.Name = canary
	_, err := pool.Run(fail)
	told.all(err, pool)
	e2etest.Until(t, "the task", func() bool {
		return place.search(t, pool, canary) != "" && strings.Contains(commandLines(), "mkfifo wait") &&
			place.search(t, pool, "it failed with "+secret) == "" && // the node forgets what a task has printed once that is here,
			place.search(t, pool, "it has "+secret) == "" // and a phase
	})

	text := strings.ReplaceAll(filesIn(t, state, ".key"), "it failed with "+secret, "")
	wantNone(t, "state directory", text, "HF_TOKEN", secret, own)
	if found := place.search(t, pool, secret) + place.search(t, pool, own); found != "" {
		t.Errorf("on the node, secrets are in\n%s", found)
	}
	wantNone(t, "command lines", commandLines(), "mkfifo wait", secret, own)
	owners := 0
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		env, _ := os.ReadFile(name)
		switch {
		case !bytes.Contains(env, []byte(secret)):
		case bytes.Contains(env, []byte("\x00GPUTRAIN_TASK=")) || bytes.HasPrefix(env, []byte("GPUTRAIN_TASK=")):
			owners++
		default:
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			t.Errorf("a process that is no task's and no worker has a secret: %q", line)
		}
	}
	if owners < 2 {
		t.Errorf("only %d processes have the secret; a task and a worker should", owners)
	}
	if _, err := pool.Run(gputrain.Script("echo >wait")); err != nil {
		t.Error(err)
	}
	if _, err := job.Wait(); err != nil {
		t.Error(err)
	}
	closed = true
	told.all(pool.Close())
	wantNone(t, "log, events, errors and output", told.String(), "it failed with [redacted]", secret, own)
	wantNone(t, "output of phases", told.String(), "it has [redacted]", secret, own)
}

// A secret that is not there ends Open before the provider is asked for anything.
func TestPoolSecretThatIsNotThere(t *testing.T) {
	state := t.TempDir()
	_, err := gputrain.Open(t.Context(), local.Config{Dir: "/no/such/place"}, gputrain.Spec{Secrets: map[string]gputrain.Secret{"HF_TOKEN": "env://GPUTRAIN_NO_SUCH"}}, gputrain.WithStateDir(state))
	if want := `secret HF_TOKEN: invalid: "env://GPUTRAIN_NO_SUCH": the variable is not set`; !errors.Is(err, gputrain.ErrInvalid) || fmt.Sprint(err) != want {
		t.Errorf("%v; want %s", err, want)
	}
	if left := e2etest.Tree(state); len(left) > 0 {
		t.Errorf("the state directory has %v", left)
	}
}

// After Attach what runs has the pool's secrets still. What begins later has those that Attach was given, or else fails,
// and new tasks and nodes are refused.
func TestAttachWithPoolSecrets(t *testing.T) {
	const missing = "it needs the secret HF_TOKEN, which is kept nowhere; give it to Attach by WithSecrets"
	refused := func(t *testing.T, what string, err error) {
		t.Helper()
		if !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, again := range map[string]map[string]gputrain.Secret{"with": {"HF_TOKEN": "of-the-second"}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			dir, ctx, state := t.TempDir(), context.Background(), gputrain.WithStateDir(t.TempDir())
			provider := local.Config{Dir: t.TempDir()}
			older, err := gputrain.Open(ctx, provider, gputrain.Spec{Secrets: map[string]gputrain.Secret{"HF_TOKEN": "of-the-first"}}, gputrain.WithName("secrets"), state)
			if err != nil {
				t.Fatal(err)
			}
			defer older.Close()
			older.Start(gputrain.Script("touch '" + dir + "/runs'; until [ -e '" + dir + "/go' ]; do sleep 0.05; done; " + spellToken))
			older.Start(gputrain.Script(spellToken))
			e2etest.Until(t, "the first task", func() bool { return e2etest.Exists(filepath.Join(dir, "runs")) })

			pool, err := gputrain.Attach(ctx, provider, "secrets", state, gputrain.WithTakeover(), gputrain.WithSecrets(again))
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			e2etest.WriteText(t, filepath.Join(dir, "go"), "")
			jobs := pool.Jobs()
			if len(jobs) != 2 {
				t.Fatalf("%d jobs", len(jobs))
			}
			if r, err := jobs[0].Wait(); err != nil || string(r.Stdout) != spelled("of-the-first") {
				t.Errorf("the task that ran says %q, %v", r.Stdout, err)
			}
			own := gputrain.Script(spellToken)
			own.Secrets = map[string]gputrain.Secret{"HF_TOKEN": "mine"}
			if r, err := pool.Run(own); err != nil || string(r.Stdout) != spelled("mine") {
				t.Errorf("a task with a secret of its own says %q, %v", r.Stdout, err)
			}
			waited, err := jobs[1].Wait()
			_, newErr := pool.Run(gputrain.Script(spellToken))
			called, callErr := spell.Run(pool, "HF_TOKEN")
			resizeErr := pool.Resize(2)
			if again == nil {
				if err == nil || !strings.Contains(err.Error(), missing) {
					t.Errorf("a task that had not begun: %v", err)
				}
				refused(t, "a new task", newErr)
				refused(t, "a new call", callErr)
				refused(t, "a new node", resizeErr)
				return
			}
			if want := spelled("of-the-second"); err != nil || string(waited.Stdout) != want || called != want || newErr != nil || callErr != nil || resizeErr != nil {
				t.Errorf("%q, %v; a call has %q, %v; %v; %v", waited.Stdout, err, called, callErr, newErr, resizeErr)
			}
		})
	}
}
