package gputrain_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/sim"
)

// guardianEvents opens and closes a pool, and returns what it reports of its guardian.
func guardianEvents(ctx context.Context, state string, p gputrain.Provider, opts ...gputrain.Option) (told []error, err error) {
	var mu sync.Mutex
	hear := gputrain.WithEvents(func(ev gputrain.Event) {
		mu.Lock()
		defer mu.Unlock()
		if ev.State == "guardian" {
			told = append(told, ev.Err)
		}
	})
	pool, err := gputrain.Open(ctx, p, gputrain.Spec{}, append(opts, hear, gputrain.WithStateDir(state))...)
	if err != nil {
		return nil, err
	}
	return told, pool.Close() // when every event was delivered
}

// A pool has a guardian, or says why not, if its machines cannot end themselves, and only then.
func TestWhoHasAGuardian(t *testing.T) {
	served := func(o sim.Options) sim.Config {
		cloud := sim.New(o)
		t.Cleanup(func() { cloud.Close() })
		endpoint, err := cloud.Serve()
		if err != nil {
			t.Fatal(err)
		}
		return sim.Config{Endpoint: endpoint}
	}
	immortal, mortal := served(sim.Options{NoSelfDestruct: true}), served(sim.Options{})
	here := sim.Config{Cloud: sim.New(sim.Options{NoSelfDestruct: true})}
	t.Cleanup(func() { here.Cloud.Close() })
	type wrapper struct{ gputrain.Provider }
	for _, tt := range []struct {
		name     string
		provider gputrain.Provider
		opts     []gputrain.Option
		want     string // of the only event, or "" for none
	}{
		{name: "a cloud", provider: immortal, want: "<nil>"},
		{name: "a group", provider: gputrain.Cheapest(mortal, immortal), want: "<nil>"},
		{name: "declined", provider: immortal, opts: []gputrain.Option{gputrain.WithoutGuardian()}},
		{name: "machines that end themselves", provider: mortal},
		{name: "what is free", provider: local.Config{}},
		{name: "a cloud in this process", provider: here, want: "start a guardian: its Config.Cloud is a *sim.Cloud, which no other process has"},
		{name: "a group with one", provider: gputrain.FirstOf(here, immortal), want: "sim: its Config.Cloud is a *sim.Cloud"},
		{name: "a strange type", provider: wrapper{immortal}, want: "its type gputrain_test.wrapper is not registered by driver.RegisterConfig"},
	} {
		told, err := guardianEvents(t.Context(), t.TempDir(), tt.provider, tt.opts...)
		switch {
		case err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want == "" && told != nil, tt.want != "" && (len(told) != 1 || !strings.Contains(fmt.Sprint(told[0]), tt.want)):
			t.Errorf("%s: it reports %v; want %q", tt.name, told, tt.want)
		}
	}
}
