//go:build linux

package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/sim"
)

// printed collects everything that a pool prints: its log, its events, its errors.
type printed struct {
	mu sync.Mutex
	bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Buffer.Write(b)
}

// options make a pool print everything.
func (p *printed) options() []gputrain.Option {
	return []gputrain.Option{
		gputrain.WithLogger(slog.New(slog.NewJSONHandler(p, nil))),
		gputrain.WithEvents(func(e gputrain.Event) { p.all(e) }),
	}
}

func (p *printed) all(values ...any) {
	for _, v := range values {
		fmt.Fprintf(p, "%v %+v %#v\n", v, v, v)
		if err, ok := v.(error); ok && err != nil {
			var te *gputrain.TaskError
			if errors.As(err, &te) {
				fmt.Fprintf(p, "%+v\n", *te)
			}
		}
	}
}

// wantNone checks that a text contains no secret. The text must contain there, which shows that it is the right text.
func wantNone(t *testing.T, where, text, there string, secrets ...string) {
	t.Helper()
	if !strings.Contains(text, there) {
		t.Errorf("%s: %q is not found either, so the search proves nothing", where, there)
	}
	for i, s := range secrets {
		if s == "" {
			t.Fatalf("secret %d is empty", i)
		}
		if at := strings.Index(text, s); at >= 0 {
			t.Errorf("%s: secret %d occurs after %q", where, i, text[max(0, at-80):at])
		}
	}
}

// filesIn returns the contents of all files in a folder, except for those whose names end with but.
func filesIn(t *testing.T, dir, but string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range e2etest.Tree(dir) {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil && !strings.HasSuffix(name, but) {
			fmt.Fprintf(&all, "%s\n%s\n", name, b)
		}
	}
	return all.String()
}

// privateKey returns parts of a pool's private key that no other key has.
func privateKey(t *testing.T, state string) (parts []string) {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(state, "pools", "*.key"))
	if len(names) != 1 {
		t.Fatalf("the keys are %v", names)
	}
	if info, err := os.Stat(names[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is %v, %v", info.Mode(), err)
	}
	lines := strings.Fields(e2etest.ReadText(t, names[0]))
	for _, line := range lines[len(lines)/2:] { // the first lines are the same in every key
		if len(line) >= 20 && !strings.Contains(line, "-----") {
			parts = append(parts, line)
		}
	}
	if len(parts) == 0 {
		t.Fatal("the key has no lines")
	}
	return parts
}

// commandLines returns those of all processes of this machine, including those in containers.
func commandLines() string {
	var all strings.Builder
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		b, _ := os.ReadFile(name)
		all.Write(append(bytes.ReplaceAll(b, []byte{0}, []byte{' '}), '\n'))
	}
	return all.String()
}

// TestRedactionOnNodes searches for the secrets of a pool of containers: a task's secret and the pool's private key.
// Only the environment of the task's own processes may contain the task's secret.
func TestRedactionOnNodes(t *testing.T) {
	e2etest.NeedDocker(t)
	const secret, canary = "task-secret-93b1c7f0e2", "canary-77aa41"
	state, dir := t.TempDir(), t.TempDir()
	var told printed
	spec := gputrain.Spec{Nodes: 1, Concurrency: 2, Mounts: []gputrain.Mount{{Source: dir, Target: "/shared"}}}
	pool := e2etest.OpenContainers(t, container.Config{}, spec, append(told.options(), gputrain.WithStateDir(state))...)
	node := pool.Nodes()[0].ID
	secrets := append(privateKey(t, state), secret)

	with := func(task gputrain.Task) gputrain.Task {
		task.Secrets = map[string]gputrain.Secret{"TOKEN": secret}
		task.Name = canary
		return task
	}
	job := pool.Start(with(gputrain.Script(`echo ` + canary + ` >kept; test -n "$TOKEN" && touch /shared/runs; until [ -e /shared/go ]; do sleep 0.1; done`)))
	e2etest.Until(t, "the task", func() bool { return e2etest.Exists(filepath.Join(dir, "runs")) })
	waiting := with(gputrain.Cmd("true"))
	waiting.Retries = 1
	slow := with(gputrain.Cmd("sleep", "60"))
	slow.Timeout = time.Second
	nowhere := with(gputrain.Cmd("true"))
	nowhere.Dir = "/nowhere"
	loud := with(gputrain.Script(`echo "it failed with $TOKEN" >&2; exit 3`)) // like tools that print their settings
	results, err := pool.Gather(waiting, slow, nowhere, loud, with(gputrain.Cmd("no-such-command", "x")), with(gputrain.Script("kill -9 $$")))
	told.all(err)
	for _, r := range results {
		told.all(r.Err)
	}
	told.all(gputrain.Task{Secrets: waiting.Secrets}, waiting)

	t.Run("state directory", func(t *testing.T) { // it has the output of the loud task, which printed its secret
		text := filesIn(t, state, ".key")
		wantNone(t, "ledger and tasks", text, canary, secrets[:len(secrets)-1]...)
		wantNone(t, "what was asked for", strings.ReplaceAll(text, "it failed with "+secret, ""), "TOKEN", secret)
	})
	t.Run("files on the node", func(t *testing.T) {
		with := func(texts ...string) string {
			cmd := exec.Command("docker", "exec", "--interactive", node, "grep", "-rlaF", "--exclude-dir=proc", "--exclude-dir=sys", "-f", "-", "/")
			cmd.Stdin = strings.NewReader(strings.Join(texts, "\n") + "\n") // not in a command line
			out, _ := cmd.Output()
			return string(out)
		}
		e2etest.Until(t, "the node to forget what a task has printed", func() bool { return with("it failed with "+secret) == "" })
		if out := with(secrets...); out != "" {
			t.Errorf("secrets are in\n%s", out)
		}
		if out := with(canary); !strings.Contains(out, "/kept\n") {
			t.Errorf("the search does not find a text that exists: %s", out)
		}
	})
	t.Run("processes", func(t *testing.T) {
		wantNone(t, "command lines", commandLines(), canary, secrets...)
		var names []string
		holders := func() int { // a process in the middle of exec shows no environment for a moment
			names, _ = filepath.Glob("/proc/[0-9]*/environ")
			return len(slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				env, _ := os.ReadFile(name)
				return !bytes.Contains(env, []byte(secret))
			}))
		}
		e2etest.Until(t, "the task's process with its secret", func() bool { return holders() > 0 })
		for _, name := range names {
			env, _ := os.ReadFile(name)
			if !bytes.Contains(env, []byte(secret)) {
				continue
			}
			if !bytes.Contains(env, []byte("GPUTRAIN_TASK_INDEX=")) {
				line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
				t.Errorf("a process that does not belong to the task has the secret: %q", line)
			}
		}
	})
	t.Run("engine", func(t *testing.T) {
		wantNone(t, "docker inspect", e2etest.Docker(t, "inspect", node), pool.ID(), secrets...)
		wantNone(t, "docker logs", e2etest.Docker(t, "logs", node)+".", ".", secrets...)
	})
	e2etest.WriteText(t, filepath.Join(dir, "go"), "")
	if _, err := job.Wait(); err != nil {
		t.Error(err)
	}
	told.all(pool.Close(), pool, pool.Nodes())
	wantNone(t, "log, events and errors", told.String(), canary, secrets...)
}

// TestRedactionAtProviders searches for the credentials of a provider in everything that a pool prints and stores,
// whatever the cloud answers.
func TestRedactionAtProviders(t *testing.T) {
	const token, wrong, secret = "api-key-5e1f00d2", "wrong-key-8c8c11", "task-secret-2222ab"
	state := t.TempDir()
	cloud := sim.New(sim.Options{Token: token})
	defer cloud.Close()
	endpoint, err := cloud.Serve()
	if err != nil {
		t.Fatal(err)
	}
	var told printed
	t.Setenv("GPUTRAIN_TEST_API_KEY", token)
	t.Setenv("GPUTRAIN_TEST_SECRET", secret)
	for cfg, value := range map[sim.Config]gputrain.Secret{
		{Cloud: cloud, Token: token}: secret, {Cloud: cloud, Token: "env://GPUTRAIN_TEST_API_KEY"}: "env://GPUTRAIN_TEST_SECRET",
		{Endpoint: endpoint, Token: token}: secret, {Endpoint: endpoint, Token: "cmd://echo " + token}: "cmd://echo " + secret,
	} {
		pool, err := gputrain.Open(t.Context(), cfg, gputrain.Spec{Nodes: 2, MaxReplacements: -1}, append(told.options(), gputrain.WithStateDir(state), gputrain.WithName("canary"))...)
		if err != nil {
			t.Fatal(err)
		}
		key := privateKey(t, state)
		task := gputrain.Cmd("false")
		task.Secrets = map[string]gputrain.Secret{"TOKEN": value}
		_, err = pool.Run(task)
		told.all(err, pool, cfg)
		wantNone(t, "state directory", filesIn(t, state, ".key"), "canary", append(key, token, secret)...)
		told.all(pool.Close())
		wantNone(t, "log, events and errors", told.String(), "canary", append(key, token, secret)...)
	}
	for _, cfg := range []sim.Config{{Cloud: cloud, Token: wrong}, {Endpoint: endpoint, Token: wrong}, {Endpoint: "http://user:" + wrong + "@127.0.0.1:1", Token: wrong},
		{Cloud: cloud, Token: "cmd://echo " + wrong}, {Cloud: cloud, Token: "cmd://echo " + wrong + "; echo no use for " + wrong + " >&2; false"}} {
		_, err := gputrain.Open(t.Context(), cfg, gputrain.Spec{}, append(told.options(), gputrain.WithStateDir(state))...)
		if err == nil {
			t.Fatal("the cloud accepts any token")
		}
		told.all(err)
		_, err = gputrain.StateDir(state).Reap(t.Context(), cfg)
		told.all(err)
		_, err = gputrain.Attach(t.Context(), cfg, "canary", gputrain.WithStateDir(state), gputrain.WithSecrets(map[string]gputrain.Secret{"TOKEN": secret}))
		told.all(err)
	}
	image := gputrain.Image{PipIndexes: []string{"https://user:" + wrong + "@packages.example/simple", "https://" + wrong + "@packages.example/simple"}, Pip: []string{"x @ https://user:" + wrong + "@packages.example/x.whl"}}
	_, err = gputrain.Open(context.Background(), sim.Config{Cloud: cloud, Token: token}, gputrain.Spec{Image: image}, append(told.options(), gputrain.WithStateDir(state))...)
	if !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("passwords in addresses: %v", err)
	}
	told.all(err)
	wantNone(t, "log, events and errors", told.String(), "packages.example", token, wrong, secret)
	if left := e2etest.Tree(filepath.Join(state, "pools")); slices.ContainsFunc(left, func(s string) bool { return !strings.HasSuffix(s, ".lock") }) {
		t.Errorf("the state directory still has %v", left)
	}
}
