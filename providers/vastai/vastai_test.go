package vastai

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	cloud.Second = 10 * time.Millisecond
	goleak.VerifyTestMain(m)
}

func (f *fake) config() Config { return Config{APIKey: testKey, Endpoint: f.URL} }

func (f *fake) open(change ...func(*Config)) *vastaiDriver {
	f.t.Helper()
	cfg := f.config()
	for _, c := range change {
		c(&cfg)
	}
	d, err := cfg.Open(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { d.Close() })
	return d.(*vastaiDriver)
}

// prepared returns a driver with pool p1 prepared.
func prepared(t *testing.T, f *fake, change ...func(*Config)) *vastaiDriver {
	t.Helper()
	d := f.open(change...)
	if err := d.Prepare(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Fatal(err)
	}
	return d
}

// launch launches one node of the first offer for the spec.
func launch(t *testing.T, d *vastaiDriver, spec gputrain.Spec, rank int) ([]driver.Instance, error) {
	t.Helper()
	all := cloudtest.AllOffers(t, d, spec.Query())
	if len(all) == 0 {
		t.Fatal("no offers")
	}
	return d.Launch(t.Context(), request(spec, all[0], rank))
}

func request(spec gputrain.Spec, o driver.Offer, rank int) driver.Launch {
	return driver.Launch{Pool: cloudtest.Info("p1"), Offer: o, Query: spec.Query(), Nodes: []driver.NodeRequest{{Rank: rank, Name: fmt.Sprintf("p1-%d", rank)}}}
}

func mustLaunch(t *testing.T, d *vastaiDriver, spec gputrain.Spec, rank int) driver.Instance {
	t.Helper()
	got, err := launch(t, d, spec, rank)
	return cloudtest.One(t, got, err)
}

// is checks that an error has a kind, and the form that all errors have.
func is(t *testing.T, err, kind error, op string) {
	t.Helper()
	cloudtest.Is(t, err, kind, "vastai", op, testKey)
}

var hostname = gputrain.Func("vastai.pid", func(_ context.Context, _ int) (int, error) { return os.Getpid(), nil })

// A pool works from Open to an empty account, with real SSH nodes.
func TestPool(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]gputrain.Spec{
		"on demand": {Nodes: 2, TTL: time.Hour},
		"spot":      {Nodes: 2, Allocation: driver.Spot, MaxHourlyUSD: 1, DiskGiB: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t, nil, nil, nil)
			f.runOnStart = true
			f.Do(func() { f.putKey(nil, "ssh-rsa AAAA me@home") })
			pool, err := gputrain.Open(t.Context(), f.config(), spec, gputrain.WithStateDir(t.TempDir()))
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			results, err := pool.Broadcast(gputrain.Cmd("sh", "-c", "echo $GPUTRAIN_NODE_RANK"))
			if err != nil || len(results) != 2 || string(results[0].Stdout) != "0\n" || string(results[1].Stdout) != "1\n" {
				t.Errorf("%v, %v", results, err)
			}
			pids, err := hostname.Broadcast(pool, 0)
			if err != nil || len(pids) != 2 || pids[0] == pids[1] || pids[0] == os.Getpid() {
				t.Errorf("%v, %v", pids, err)
			}
			for _, n := range pool.Nodes() {
				if usd, known := n.HourlyUSD.USD(); !known || usd <= 0 || n.Region != "Washington, US" || n.InstanceType != "1x RTX 4090" {
					t.Errorf("%+v", n)
				}
			}
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
			if live := f.live(); len(live) != 1 || live[0] != "key ssh-rsa AAAA me@home" {
				t.Errorf("left: %v", live)
			}
			for _, r := range f.Records(opCreate) {
				if strings.Contains(r.Body, `"price"`) != (name == "spot") {
					t.Errorf("%s: %s", name, r.Body)
				}
			}
		})
	}
}
