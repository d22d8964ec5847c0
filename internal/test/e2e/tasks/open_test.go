package tasks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/local"
)

func TestWithClosesAlsoAfterAPanic(t *testing.T) {
	dir := t.TempDir()
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("recovered %v", r)
			}
		}()
		gputrain.With(t.Context(), local.Config{Dir: dir}, gputrain.Spec{Nodes: 2}, func(ctx context.Context, pool *gputrain.Compute) error {
			pool.Start(gputrain.Cmd("sleep", "600"))
			panic("boom")
		})
	}()
	e2etest.WantEmpty(t, dir)

	want := errors.New("body")
	var inside context.Context
	err := gputrain.With(t.Context(), local.Config{Dir: dir}, gputrain.Spec{}, func(ctx context.Context, pool *gputrain.Compute) error {
		inside = ctx
		return want
	})
	if !errors.Is(err, want) || inside.Err() == nil {
		t.Errorf("got %v; the body's context: %v", err, inside.Err())
	}
	e2etest.WantEmpty(t, dir)
}

func TestEndOfTheContextEndsThePool(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	pool, err := gputrain.Open(ctx, local.Config{Dir: dir}, gputrain.Spec{Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	job := pool.Start(gputrain.Cmd("sleep", "600"))
	cancel()
	_, err = job.Wait()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the job ended with %v", err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if _, err := pool.Run(gputrain.Cmd("true")); !errors.Is(err, gputrain.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	e2etest.WantEmpty(t, dir)
}

// TestContextEndsAtEveryStageOfOpen ends the context inside each call that Open makes, and checks
// that nothing remains.
func TestContextEndsAtEveryStageOfOpen(t *testing.T) {
	stages := map[string]func(w *e2etest.Wrapped, cancel func()){
		"open": func(w *e2etest.Wrapped, cancel func()) {
			w.OnOpen = func(context.Context) error { cancel(); return nil }
		},
		"offers": func(w *e2etest.Wrapped, cancel func()) {
			w.OnOffers = func(context.Context) error { cancel(); return nil }
		},
		"prepare": func(w *e2etest.Wrapped, cancel func()) {
			w.OnPrepare = func(context.Context) error { cancel(); return nil }
		},
		"launch, before": func(w *e2etest.Wrapped, cancel func()) {
			w.OnLaunch = func(ctx context.Context, r driver.Launch, d driver.Driver) ([]driver.Instance, error) {
				cancel()
				return d.Launch(ctx, r)
			}
		},
		"launch, after": func(w *e2etest.Wrapped, cancel func()) {
			w.OnLaunch = func(ctx context.Context, r driver.Launch, d driver.Driver) ([]driver.Instance, error) {
				got, err := d.Launch(ctx, r)
				cancel()
				return got, err
			}
		},
		"launch, and the answer is lost": func(w *e2etest.Wrapped, cancel func()) {
			w.OnLaunch = func(ctx context.Context, r driver.Launch, d driver.Driver) ([]driver.Instance, error) {
				d.Launch(ctx, r)
				cancel()
				return nil, ctx.Err()
			}
		},
		"connect": func(w *e2etest.Wrapped, cancel func()) {
			w.OnDial = func(ctx context.Context, i driver.Instance) (net.Conn, error) {
				cancel()
				return w.Opened.Driver.(driver.Dialer).Dial(ctx, i)
			}
		},
	}
	for name, arrange := range stages {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := &e2etest.Wrapped{Provider: local.Config{Dir: dir}}
			arrange(w, cancel)
			_, err := gputrain.Open(ctx, w, gputrain.Spec{Nodes: 3})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			e2etest.WantEmpty(t, dir)
		})
	}
	for _, phase := range []string{"files", "setup 1/1"} {
		t.Run(phase, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := gputrain.Open(ctx, local.Config{Dir: dir}, gputrain.Spec{Nodes: 2, Image: gputrain.Image{
				Include: []string{"main_test.go"}, Setup: []string{"sleep 600"},
			}}, gputrain.WithEvents(func(e gputrain.Event) {
				if e.Kind == gputrain.EventPhase && e.Phase == phase {
					cancel()
				}
			}))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			e2etest.WantEmpty(t, dir)
		})
	}
}

func TestMinReadyLetsTheOthersJoin(t *testing.T) {
	hold := make(chan struct{})
	w := &e2etest.Wrapped{Provider: local.Config{Dir: t.TempDir()}}
	w.OnDial = func(ctx context.Context, i driver.Instance) (net.Conn, error) {
		if i.Rank >= 2 {
			select {
			case <-hold:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return w.Opened.Driver.(driver.Dialer).Dial(ctx, i)
	}
	ready := make(chan int, 10)
	pool, err := gputrain.Open(t.Context(), w, gputrain.Spec{Nodes: 4, MinReady: 2}, gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventNode && e.State == "ready" {
			ready <- e.Node
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	late := gputrain.Cmd("true")
	late.Target = gputrain.OnRank(3)
	e2etest.Until(t, "the last node's first connection", func() bool { return pool.Nodes()[3].State == gputrain.NodeConnecting })
	if results, err := pool.Broadcast(late); !errors.Is(err, gputrain.ErrUnavailable) || results != nil ||
		!strings.Contains(err.Error(), "no node is ready of those with rank 3: "+pool.ID()+"-3 is connecting") {
		t.Errorf("a broadcast to a node that is not ready returned %v, %v", results, err)
	}
	file := filepath.Join(t.TempDir(), "f")
	os.WriteFile(file, []byte("early"), 0o644)
	if err := pool.Upload(file, "f"); err != nil {
		t.Fatal(err)
	}
	close(hold)
	for range 4 {
		<-ready
	}
	results, err := pool.Broadcast(gputrain.Cmd("cat", "f"))
	if err != nil || len(results) != 4 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for _, r := range results {
		if string(r.Stdout) != "early" {
			t.Errorf("node %d has %q", r.Node.Rank, r.Stdout)
		}
	}
}

func TestPartialLaunchIsAnErrorAndNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	w := &e2etest.Wrapped{Provider: local.Config{Dir: dir}}
	w.OnLaunch = func(ctx context.Context, r driver.Launch, d driver.Driver) ([]driver.Instance, error) {
		r.Nodes = r.Nodes[:2]
		got, _ := d.Launch(ctx, r)
		return got, &gputrain.Error{Provider: "local", Op: "launch", Kind: gputrain.ErrQuota}
	}
	_, err := gputrain.Open(t.Context(), w, gputrain.Spec{Nodes: 3})
	if !errors.Is(err, gputrain.ErrQuota) {
		t.Errorf("got %v", err)
	}
	e2etest.WantEmpty(t, dir)

	// Two nodes are enough for MinReady: the pool opens with them.
	pool, err := gputrain.Open(t.Context(), w, gputrain.Spec{Nodes: 3, MinReady: 2})
	if err != nil {
		t.Fatal(err)
	}
	if results, err := pool.Broadcast(gputrain.Cmd("true")); err != nil || len(results) != 2 {
		t.Errorf("%d results, %v", len(results), err)
	}
	e2etest.Until(t, "the failure of node 2", func() bool { return pool.Nodes()[2].State == gputrain.NodeFailed })
	third := gputrain.Cmd("true")
	third.Target = gputrain.OnRank(2)
	if _, err := pool.Broadcast(third); !errors.Is(err, gputrain.ErrQuota) || errors.Is(err, gputrain.ErrNodeLost) || !strings.Contains(err.Error(), "rank 2") {
		t.Errorf("a broadcast to a node that was never there ended with %v", err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	e2etest.WantEmpty(t, dir)
}

func TestTerminateIsTriedAgainAndALeakIsNamed(t *testing.T) {
	dir := t.TempDir()
	failures := 2
	w := &e2etest.Wrapped{Provider: local.Config{Dir: dir}}
	w.OnTerminate = func([]string) error {
		if failures--; failures >= 0 {
			return errors.New("try later")
		}
		return nil
	}
	pool, err := gputrain.Open(t.Context(), w, gputrain.Spec{Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		t.Errorf("two failures should be tried again: %v", err)
	}
	e2etest.WantEmpty(t, dir)

	leak := &gputrain.LeakError{Resources: []gputrain.Resource{{Provider: "acme", Kind: "machine", ID: "m1", Region: "eu", HourlyUSD: driver.USD(2)}}, Err: errors.New("503")}
	if got := leak.Error(); got != "not confirmed gone: acme machine m1 in eu at $2.00 an hour: 503" {
		t.Errorf("the leak reads %q", got)
	}
}

func TestOffersAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		spec  gputrain.Spec
		offer func(*gputrain.Offer)
		is    error
		text  string
	}{
		"vcpus":    {gputrain.Spec{VCPUs: 1 << 20}, nil, gputrain.ErrNoOffers, "vCPUs"},
		"memory":   {gputrain.Spec{MemoryGiB: 1 << 30}, nil, gputrain.ErrNoOffers, "memory"},
		"region":   {gputrain.Spec{Regions: []string{"north", "us-east-1"}}, func(o *gputrain.Offer) { o.Region = "us-east-10" }, gputrain.ErrNoOffers, "is in us-east-10"},
		"no place": {gputrain.Spec{Regions: []string{"north"}}, func(o *gputrain.Offer) { o.Region = "" }, gputrain.ErrNoOffers, "no region"},
		"arch":     {gputrain.Spec{Arch: "arm64"}, func(o *gputrain.Offer) { o.Arch = "amd64" }, gputrain.ErrNoOffers, "is amd64"},
		"disk":     {gputrain.Spec{DiskGiB: 1 << 40}, nil, gputrain.ErrNoOffers, "disk"},
		"price":    {gputrain.Spec{MaxHourlyUSD: 1}, func(o *gputrain.Offer) { o.HourlyUSD = driver.USD(2) }, gputrain.ErrNoOffers, "$2.00"},
		"no price": {gputrain.Spec{MaxHourlyUSD: 1}, func(o *gputrain.Offer) { o.HourlyUSD = gputrain.Price{} }, gputrain.ErrNoOffers, "not known"},
		"spot":     {gputrain.Spec{}, func(o *gputrain.Offer) { o.Spot = true }, gputrain.ErrNoOffers, "spot"},
		"mounts":   {gputrain.Spec{Mounts: []gputrain.Mount{{Source: "/a", Target: "/b"}}}, nil, gputrain.ErrNoOffers, "mounts"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := gputrain.Open(t.Context(), &e2etest.Wrapped{Provider: local.Config{Dir: dir}, OnOffer: c.offer}, c.spec)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v", err)
			}
			e2etest.WantEmpty(t, dir)
		})
	}
}

func TestEventsTellTheWholeStory(t *testing.T) {
	var mu sync.Mutex
	var story []string
	pool, err := gputrain.Open(t.Context(), local.Config{Dir: t.TempDir()}, gputrain.Spec{Image: gputrain.Image{Setup: []string{"true"}}},
		gputrain.WithEvents(func(e gputrain.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Time.IsZero() || e.Pool == "" {
				t.Errorf("event without time or pool: %+v", e)
			}
			story = append(story, strings.TrimSpace(fmt.Sprint(e.Kind, " ", e.Phase, " ", e.State)))
		}))
	if err != nil {
		t.Fatal(err)
	}
	task := gputrain.Script("test -e again || { touch again; exit 1; }")
	task.Retries = 1
	if _, err := pool.Run(task); err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	want := []string{"pool  opening", "node  launching", "cost", "node  connecting", "node  bootstrapping",
		"phase setup 1/1 started", "phase setup 1/1 done", "node  ready", "pool  ready",
		"task  queued", "task  started", "retry", "task  started", "task  done", "pool  closing", "cost", "node  terminated", "pool  closed"}
	i := 0
	for _, s := range story {
		if i < len(want) && s == want[i] {
			i++
		}
	}
	if i != len(want) {
		t.Errorf("the events lack %q:\n%s", want[i], strings.Join(story, "\n"))
	}
}

func TestBootstrapErrorSaysWhere(t *testing.T) {
	dir := t.TempDir()
	_, err := gputrain.Open(t.Context(), local.Config{Dir: dir}, gputrain.Spec{Nodes: 2, Image: gputrain.Image{
		Setup: []string{"true", "echo on the way; echo no such thing >&2; exit 5"},
	}})
	var be *gputrain.BootstrapError
	if !errors.As(err, &be) || !errors.Is(err, gputrain.ErrBootstrap) {
		t.Fatalf("got %v", err)
	}
	if be.Phase != "setup 2/2" || be.ExitCode != 5 || !strings.Contains(be.Tail, "no such thing") || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("got %+v", be)
	}
	e2etest.WantEmpty(t, dir)
}

func TestImageIsAppliedOnce(t *testing.T) {
	t.Setenv("GPUTRAIN_TEST", "1")
	src := t.TempDir()
	os.WriteFile(filepath.Join(src, "keep.txt"), []byte("kept"), 0o644)
	os.WriteFile(filepath.Join(src, "drop.log"), []byte("no"), 0o644)
	pool := e2etest.Open(t, gputrain.Spec{Image: gputrain.Image{
		Env: map[string]string{"GREETING": "hello world"}, Include: []string{src}, Exclude: []string{"*.log"},
		Setup: []string{"echo $GREETING > setup.txt"},
	}})
	r, err := pool.Run(gputrain.Script("cat setup.txt; ls " + filepath.Base(src) + "; echo $GREETING"))
	if err != nil || string(r.Stdout) != "hello world\nkeep.txt\nhello world\n" {
		t.Errorf("got %q, %v", r.Stdout, err)
	}
}
