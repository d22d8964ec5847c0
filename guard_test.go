package gputrain_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// dark is a provider that cannot be opened until a time.
type dark struct {
	sim.Config
	until time.Time
	tries *[]time.Duration // before that time
}

func (d dark) Open(ctx context.Context) (driver.Driver, error) {
	if left := time.Until(d.until); left > 0 {
		*d.tries = append(*d.tries, left)
		return nil, &gputrain.Error{Provider: "dark", Op: "open", Kind: gputrain.ErrUnavailable}
	}
	return d.Config.Open(ctx)
}

// A provider that fails is asked less and less often, the others in each round, and all again when it is well.
func TestGuardSurvivesAProvider(t *testing.T) {
	dir := gputrain.StateDir(t.TempDir())
	bubble.Test(t, func(t *testing.T) {
		cloud := sim.New(sim.Options{})
		defer cloud.Close()
		var tries []time.Duration
		const hours = 10 * time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), hours+time.Hour)
		defer cancel()
		bad := dark{Config: sim.Config{Cloud: cloud, Account: "other"}, until: time.Now().Add(hours), tries: &tries}
		rounds, failed, wellAt := 0, 0, time.Time{}
		for ended, err := range dir.Guard(ctx, 5*time.Minute, bad, sim.Config{Cloud: cloud}) {
			rounds++
			switch {
			case ended != nil || err != nil && !errors.Is(err, gputrain.ErrUnavailable):
				t.Errorf("%v, %v", ended, err)
			case err != nil:
				failed++
			default:
				wellAt = time.Now()
			}
		}
		var after []time.Duration
		for i, left := range tries[1:] {
			after = append(after, tries[i]-left)
		}
		want := []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour}
		if len(after) < len(want) || !slices.Equal(after[:len(want)], want) || slices.Max(after) > time.Hour {
			t.Errorf("it was asked again after %v; want %v, and then every hour", after, want)
		}
		if lists := count(cloud, sim.OpList); failed != len(tries) || rounds < 11*12 || lists < rounds {
			t.Errorf("%d rounds, of which %d fail, with %d lists; %d tries", rounds, failed, lists, len(tries))
		}
		if wellAt.Before(bad.until) {
			t.Error("it is not well in the end")
		}
	})
}

func count(cloud *sim.Cloud, op sim.Op) (n int) {
	for _, call := range cloud.Log() {
		if call.Op == op {
			n++
		}
	}
	return n
}

func TestGuardRefuses(t *testing.T) {
	for name, guard := range map[string]func() (ended []gputrain.Resource, err error){
		"no pause":    func() ([]gputrain.Resource, error) { return first(t, 0, sim.Config{}) },
		"no provider": func() ([]gputrain.Resource, error) { return first(t, time.Hour) },
		"nil":         func() ([]gputrain.Resource, error) { return first(t, time.Hour, nil) },
	} {
		if ended, err := guard(); ended != nil || !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("%s: %v, %v", name, ended, err)
		}
	}
}

// first returns what the first round of a Guard that has only one yields.
func first(t *testing.T, every time.Duration, providers ...gputrain.Provider) (ended []gputrain.Resource, err error) {
	rounds := 0
	for ended, err = range gputrain.Guard(t.Context(), every, providers...) {
		rounds++
	}
	if rounds != 1 {
		t.Errorf("%d rounds", rounds)
	}
	return ended, err
}
