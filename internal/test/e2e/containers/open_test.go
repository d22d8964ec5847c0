package containers

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/driver"
)

// TestContextEndsAtEveryStageOfOpeningContainers ends the context before and after each call of the
// driver, and in each phase. The engine must then have nothing of the pool.
func TestContextEndsAtEveryStageOfOpeningContainers(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts many containers")
	}
	e2etest.NeedDocker(t)
	type arrangement = func(w *e2etest.Wrapped, cancel func())
	type call = func(context.Context, driver.Launch, driver.Driver) ([]driver.Instance, error)
	launch := func(f func(cancel func()) call) arrangement {
		return func(w *e2etest.Wrapped, cancel func()) { w.OnLaunch = f(cancel) }
	}
	ends := func(cancel func()) func(context.Context) error {
		return func(context.Context) error { cancel(); return nil }
	}
	stages := map[string]arrangement{
		"open":    func(w *e2etest.Wrapped, cancel func()) { w.OnOpen = ends(cancel) },
		"offers":  func(w *e2etest.Wrapped, cancel func()) { w.OnOffers = ends(cancel) },
		"prepare": func(w *e2etest.Wrapped, cancel func()) { w.OnPrepare = ends(cancel) },
		"prepare, while the network is made": func(w *e2etest.Wrapped, cancel func()) {
			w.OnPrepare = func(ctx context.Context) error { time.AfterFunc(30*time.Millisecond, cancel); return nil }
		},
		"launch, before": launch(func(cancel func()) call {
			return func(ctx context.Context, r driver.Launch, d driver.Driver) ([]driver.Instance, error) {
				cancel()
				return d.Launch(ctx, r)
			}
		}),
		"launch, while containers start": launch(func(cancel func()) call {
			return func(ctx context.Context, r driver.Launch, d driver.Driver) ([]driver.Instance, error) {
				go func() {
					defer cancel()
					for ctx.Err() == nil {
						if listed, err := d.List(ctx, r.Pool.ID); err != nil || len(listed) > 1 { // the network, and a container
							return
						}
					}
				}()
				return d.Launch(ctx, r)
			}
		}),
		"launch, after": launch(func(cancel func()) call {
			return func(ctx context.Context, r driver.Launch, d driver.Driver) ([]driver.Instance, error) {
				defer cancel()
				return d.Launch(ctx, r)
			}
		}),
		"launch, and the answer is lost": launch(func(cancel func()) call {
			return func(ctx context.Context, r driver.Launch, d driver.Driver) ([]driver.Instance, error) {
				d.Launch(ctx, r)
				cancel()
				return nil, ctx.Err()
			}
		}),
		"describe": func(w *e2etest.Wrapped, cancel func()) {
			w.OnDescribe = func(found []driver.Instance) ([]driver.Instance, error) { cancel(); return found, nil }
			w.OnLaunch = func(ctx context.Context, r driver.Launch, d driver.Driver) ([]driver.Instance, error) {
				got, err := d.Launch(ctx, r)
				for i := range got {
					got[i].State = driver.InstancePending // so that Describe is called
				}
				return got, err
			}
		},
		"connect": func(w *e2etest.Wrapped, cancel func()) {
			w.OnDial = func(ctx context.Context, i driver.Instance) (net.Conn, error) {
				cancel()
				return w.Opened.Driver.(driver.Dialer).Dial(ctx, i)
			}
		},
		"connected": func(w *e2etest.Wrapped, cancel func()) {
			w.OnDial = func(ctx context.Context, i driver.Instance) (net.Conn, error) {
				defer cancel()
				return w.Opened.Driver.(driver.Dialer).Dial(ctx, i)
			}
		},
	}
	src := t.TempDir()
	e2etest.WriteText(t, filepath.Join(src, "f"), "data")
	try := func(name, phase string, arrange arrangement) {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !slices.Contains([]string{"prepare", "launch, and the answer is lost", "connect", "phase setup 1/1"}, name) {
				t.Skip("scripts/test -deep runs it: other stages run")
			}
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := &e2etest.Wrapped{Provider: container.Config{}}
			arrange(w, cancel)
			id := uniqueName()
			_, err := gputrain.Open(ctx, w, gputrain.Spec{Nodes: 2, Image: gputrain.Image{
				Apt: []string{"python3"}, Include: []string{src}, Setup: []string{"sleep 600"},
			}}, gputrain.WithName(id), gputrain.WithEvents(func(e gputrain.Event) {
				if e.Pool != "" {
					id = e.Pool
				}
				if e.Kind == gputrain.EventPhase && e.Phase == phase {
					cancel()
				}
			}))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			e2etest.WantNothingOf(t, id)
		})
	}
	for name, arrange := range stages {
		try(name, "", arrange)
	}
	for _, phase := range []string{"packages", "files", "setup 1/1"} {
		try("phase "+phase, phase, func(*e2etest.Wrapped, func()) {})
	}
}

// uniqueName returns a pool name by which the rest of the pool can be found.
func uniqueName() string { return "t" + strings.ToLower(rand.Text()[:10]) }
