package gputrain_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/container"
)

// TestContextEndsAtEveryStageOfOpeningContainers ends the context before and
// after each call of the driver, and in each phase, and asks the engine what is left.
func TestContextEndsAtEveryStageOfOpeningContainers(t *testing.T) {
	needDocker(t)
	type arrangement = func(w *wrapped, cancel func())
	type call = func(context.Context, gputrain.LaunchRequest, gputrain.Driver) ([]gputrain.Instance, error)
	launch := func(f func(cancel func()) call) arrangement {
		return func(w *wrapped, cancel func()) { w.launch = f(cancel) }
	}
	ends := func(cancel func()) func(context.Context) error {
		return func(context.Context) error { cancel(); return nil }
	}
	stages := map[string]arrangement{
		"open":    func(w *wrapped, cancel func()) { w.open = ends(cancel) },
		"offers":  func(w *wrapped, cancel func()) { w.offers = ends(cancel) },
		"prepare": func(w *wrapped, cancel func()) { w.prep = ends(cancel) },
		"prepare, while the network is made": func(w *wrapped, cancel func()) {
			w.prep = func(ctx context.Context) error { time.AfterFunc(30*time.Millisecond, cancel); return nil }
		},
		"launch, before": launch(func(cancel func()) call {
			return func(ctx context.Context, r gputrain.LaunchRequest, d gputrain.Driver) ([]gputrain.Instance, error) {
				cancel()
				return d.Launch(ctx, r)
			}
		}),
		"launch, while containers start": launch(func(cancel func()) call {
			return func(ctx context.Context, r gputrain.LaunchRequest, d gputrain.Driver) ([]gputrain.Instance, error) {
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
			return func(ctx context.Context, r gputrain.LaunchRequest, d gputrain.Driver) ([]gputrain.Instance, error) {
				defer cancel()
				return d.Launch(ctx, r)
			}
		}),
		"launch, and the answer is lost": launch(func(cancel func()) call {
			return func(ctx context.Context, r gputrain.LaunchRequest, d gputrain.Driver) ([]gputrain.Instance, error) {
				d.Launch(ctx, r)
				cancel()
				return nil, ctx.Err()
			}
		}),
		"describe": func(w *wrapped, cancel func()) {
			w.desc = func(found []gputrain.Instance) ([]gputrain.Instance, error) { cancel(); return found, nil }
			w.launch = func(ctx context.Context, r gputrain.LaunchRequest, d gputrain.Driver) ([]gputrain.Instance, error) {
				got, err := d.Launch(ctx, r)
				for i := range got {
					got[i].State = gputrain.InstancePending // so that it is asked for
				}
				return got, err
			}
		},
		"connect": func(w *wrapped, cancel func()) {
			w.dial = func(ctx context.Context, i gputrain.Instance) (net.Conn, error) {
				cancel()
				return w.driver.Driver.(gputrain.Dialer).Dial(ctx, i)
			}
		},
		"connected": func(w *wrapped, cancel func()) {
			w.dial = func(ctx context.Context, i gputrain.Instance) (net.Conn, error) {
				defer cancel()
				return w.driver.Driver.(gputrain.Dialer).Dial(ctx, i)
			}
		},
	}
	src := t.TempDir()
	writeText(t, filepath.Join(src, "f"), "data")
	try := func(name, phase string, arrange arrangement) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := &wrapped{Provider: container.Config{}}
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
			wantNothingOf(t, id)
		})
	}
	for name, arrange := range stages {
		try(name, "", arrange)
	}
	for _, phase := range []string{"packages", "files", "setup 1/1"} {
		try("phase "+phase, phase, func(*wrapped, func()) {})
	}
}

// uniqueName is a pool's name, by which whatever is left of it is found.
func uniqueName() string { return "t" + strings.ToLower(rand.Text()[:10]) }
