package tasks

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// wantReadable checks the first line of an error: it repeats nothing, names no package, and does not end as if more
// followed.
func wantReadable(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	t.Logf("%s: %s", what, line)
	if strings.TrimSpace(line) == "" || regexp.MustCompile(`[:;,.]\s*$|: :|;;|\.;|\(\s|\s\)`).MatchString(line) {
		t.Errorf("%s: it ends in the middle of a sentence: %q", what, line)
	}
	if regexp.MustCompile(`(^|: )(transfer|supervisor|codec|worker|rest|record|ledger|secretref|sshd|crossbuild|bootstrap): `).MatchString(line) {
		t.Errorf("%s: it names a package: %q", what, line)
	}
	seen := map[string]bool{}
	for _, part := range regexp.MustCompile(`: |; `).Split(line, -1) {
		if seen[part] {
			t.Errorf("%s: it says %q twice: %q", what, part, line)
		}
		seen[part] = true
	}
	words := strings.FieldsFunc(strings.ToLower(line), func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '\'') })
	for i := range words {
		if i > 0 && words[i] == words[i-1] && strings.ContainsAny(words[i], "abcdefghijklmnopqrstuvwxyz") {
			t.Errorf("%s: it says %q twice: %q", what, words[i], line)
		}
	}
}

func TestErrorsOfTasksAreReadable(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 1})
	run := func(task gputrain.Task) error { _, err := pool.Run(task); return err }
	with := func(task gputrain.Task, change func(*gputrain.Task)) error { change(&task); return run(task) }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{
		"exit code":        run(gputrain.Script("exit 3")),
		"signal":           run(gputrain.Script("kill -9 $$")),
		"last words":       run(gputrain.Script("echo it is over: >&2; exit 1")),
		"no such command":  run(gputrain.Cmd("no-such-command")),
		"timeout":          with(gputrain.Cmd("sleep", "60"), func(t *gputrain.Task) { t.Timeout = 10 * time.Millisecond }),
		"no such folder":   with(gputrain.Cmd("true"), func(t *gputrain.Task) { t.Dir = "nowhere" }),
		"outputs":          with(gputrain.Cmd("true"), func(t *gputrain.Task) { t.Outputs = []string{"model.pt", "*.json"} }),
		"empty":            run(gputrain.Task{}),
		"mistakes":         with(gputrain.Cmd(""), func(t *gputrain.Task) { t.Retries, t.Timeout, t.Outputs = -1, -1, []string{"/x", "", "a["} }),
		"secret":           with(gputrain.Cmd("true"), func(t *gputrain.Task) { t.Secrets = map[string]gputrain.Secret{"A": "env://NO_SUCH_VARIABLE"} }),
		"no such rank":     with(gputrain.Cmd("true"), func(t *gputrain.Task) { t.Target = gputrain.OnRank(7) }),
		"function's error": with(e2etest.Norm.Call(e2etest.Point{X: 2e6, Y: 0}), func(*gputrain.Task) {}),
		"panic":            with(e2etest.Explode.Call(0), func(*gputrain.Task) {}),
		"exit in function": with(e2etest.Exit.Call(3), func(*gputrain.Task) {}),
		"context":          func() error { _, err := pool.WithContext(ended).Run(gputrain.Cmd("true")); return err }(),
		"upload":           pool.Upload(filepath.Join(t.TempDir(), "nothing"), "x"),
		"upload to root":   pool.Upload(t.TempDir(), "/"),
		"download":         pool.Download("nothing", t.TempDir()),
		"resize":           pool.Resize(-1),
	} {
		wantReadable(t, what, err)
	}
	nowhere := gputrain.Cmd("true")
	nowhere.Dir = "nowhere"
	if err := run(nowhere); !strings.HasSuffix(err.Error(), ": never started: no such folder on the node, or it cannot be entered: nowhere") {
		t.Errorf("no such folder: %v", err)
	}
	job := pool.Start(gputrain.Cmd("sleep", "60"))
	job.Cancel()
	_, err := job.Wait()
	wantReadable(t, "cancelled", err)
	running := pool.Start(gputrain.Cmd("sleep", "60"))
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = running.Wait()
	wantReadable(t, "cancelled by Close", err)
	wantReadable(t, "closed", run(gputrain.Cmd("true")))
	wantReadable(t, "closed before Upload", pool.Upload(t.TempDir(), "x"))
}

func TestErrorsOfOpenAreReadable(t *testing.T) {
	offer := gputrain.Offer{InstanceType: "a100", Region: "here", HourlyUSD: driver.USD(2)}
	cloud := sim.New(sim.Options{Token: "right", Offers: []gputrain.Offer{offer}})
	defer cloud.Close()
	cfg := sim.Config{Cloud: cloud, Token: "right"}
	state := gputrain.WithStateDir(t.TempDir())
	opened := func(cfg sim.Config, spec gputrain.Spec, opts ...gputrain.Option) error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		pool, err := gputrain.Open(ctx, cfg, spec, append(opts, state)...)
		if err == nil {
			pool.Close()
		}
		return err
	}
	failing := func(kind sim.Kind) error {
		cloud.Inject(sim.Fault{Op: sim.OpLaunch, Kind: kind})
		defer cloud.Calm()
		return opened(cfg, gputrain.Spec{Nodes: 1, MaxReplacements: -1})
	}
	pool, err := gputrain.Open(t.Context(), cfg, gputrain.Spec{Nodes: 1}, state, gputrain.WithName("mine"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	_, inUse := gputrain.Attach(t.Context(), cfg, "mine", state)
	_, unknown := gputrain.Attach(t.Context(), cfg, "no-such-pool", state)
	for what, err := range map[string]error{
		"wrong token":     opened(sim.Config{Cloud: cloud, Token: "wrong"}, gputrain.Spec{}),
		"no token":        opened(sim.Config{Endpoint: "http://127.0.0.1:1"}, gputrain.Spec{}),
		"mistakes":        opened(cfg, gputrain.Spec{Nodes: -1, MaxHourlyUSD: -1, Lease: -1}),
		"name":            opened(cfg, gputrain.Spec{}, gputrain.WithName("a name"), gputrain.WithSourceDir("/no/such")),
		"no offers":       opened(cfg, gputrain.Spec{MaxHourlyUSD: 1}),
		"budget":          opened(cfg, gputrain.Spec{Nodes: 3, BudgetUSD: 0.01}),
		"provider is nil": func() error { _, err := gputrain.Open(t.Context(), nil, gputrain.Spec{}); return err }(),
		"failed boot":     failing(sim.FailedBoot),

		"in use":       inUse,
		"unknown pool": unknown,
	} {
		wantReadable(t, what, err)
	}
	if !errors.Is(inUse, gputrain.ErrInUse) {
		t.Errorf("%v", inUse)
	}
}

// TestErrorSaysThingsOnce formats chains of errors whose parts repeat each other.
func TestErrorSaysThingsOnce(t *testing.T) {
	offers := &gputrain.Error{Provider: "acme", Op: "offers", Kind: gputrain.ErrNoOffers, Err: errors.New("it has nothing now")}
	for want, err := range map[string]*gputrain.Error{
		"acme: no offers: it has nothing now":                          offers,
		"acme: target: no node is left: no offers: it has nothing now": {Provider: "acme", Op: "target", Err: around("no node is left", offers)},
		"acme: launch: quota exceeded: it is full (request r-1); ask for more": {
			Provider: "acme", Op: "launch", Kind: gputrain.ErrQuota, Err: errors.New("it is full."), RequestID: "r-1", Hint: "ask for more"},
		"pool is closed":               {Op: "pool", Kind: gputrain.ErrClosed},
		"acme: budget exceeded: $2":    {Provider: "acme", Op: "budget", Kind: gputrain.ErrBudget, Err: errors.New("$2")},
		"read the ledger: it is empty": {Op: "read the ledger", Kind: gputrain.ErrLedger, Err: errors.New("it is empty")},
		"acme: connect n-0: host key mismatch: it has another": {
			Provider: "acme", Op: "connect n-0", Kind: gputrain.ErrHostKey, Err: errors.New("host key mismatch: it has another")},
		"acme: launch: failed": {Provider: "acme", Op: "launch"},
		"failed":               {},
		"not found":            {Kind: gputrain.ErrNotFound},
		"acme: launch: unavailable: acme.example is out": {Provider: "acme", Op: "launch", Kind: gputrain.ErrUnavailable, Err: errors.New("acme.example is out")},
	} {
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
	}
}

func around(text string, err error) error { return &aroundError{text, err} }

type aroundError struct {
	text string
	err  error
}

func (e *aroundError) Error() string { return e.text + ": " + e.err.Error() }

func (e *aroundError) Unwrap() error { return e.err }
