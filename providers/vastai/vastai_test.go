package vastai

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	second = 20 * time.Millisecond
	goleak.VerifyTestMain(m)
}

// poolKey is one that nobody has to keep secret.
const poolKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICOA76qIYROc7PnGRwv6p8T1jyHKUymIN5JXz3yFMJoB"

func (f *fake) config() Config { return Config{APIKey: testKey, Endpoint: f.URL} }

func (f *fake) open(change ...func(*Config)) *driver {
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
	return d.(*driver)
}

func info(pool string) gputrain.PoolInfo {
	return gputrain.PoolInfo{ID: pool, Owner: "host.12ab34cd/1/2", Lease: time.Minute, AuthorizedKey: poolKey + " comment"}
}

func offers(t *testing.T, d *driver, spec gputrain.Spec) (all []gputrain.Offer) {
	t.Helper()
	for o, err := range d.Offers(t.Context(), spec) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// prepared is a driver whose pool p1 is prepared.
func prepared(t *testing.T, f *fake, change ...func(*Config)) *driver {
	t.Helper()
	d := f.open(change...)
	if err := d.Prepare(t.Context(), info("p1")); err != nil {
		t.Fatal(err)
	}
	return d
}

// launch asks for one node, of the first offer that the spec finds.
func launch(t *testing.T, d *driver, spec gputrain.Spec, rank int) ([]gputrain.Instance, error) {
	t.Helper()
	all := offers(t, d, spec)
	if len(all) == 0 {
		t.Fatal("no offers")
	}
	return d.Launch(t.Context(), request(spec, all[0], rank))
}

func request(spec gputrain.Spec, o gputrain.Offer, rank int) gputrain.LaunchRequest {
	return gputrain.LaunchRequest{Pool: info("p1"), Offer: o, Spec: spec, Nodes: []gputrain.NodeRequest{{Rank: rank, Name: fmt.Sprintf("p1-%d", rank)}}}
}

func mustLaunch(t *testing.T, d *driver, spec gputrain.Spec, rank int) gputrain.Instance {
	t.Helper()
	got, err := launch(t, d, spec, rank)
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	return got[0]
}

func describe(t *testing.T, d *driver, id string) gputrain.Instance {
	t.Helper()
	found, err := d.Describe(t.Context(), id)
	if err != nil || len(found) != 1 || found[0].ID != id {
		t.Fatalf("%+v, %v", found, err)
	}
	return found[0]
}

// is looks whether an error is of a kind, and formed as all are.
func is(t *testing.T, err, kind error, op string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v; want one that is %v", err, kind)
	}
	var e *gputrain.Error
	if !errors.As(err, &e) || e.Provider != "vastai" || e.Op != op {
		t.Errorf("%v is not an error of vastai's %s", err, op)
	}
	if err != nil && strings.Contains(err.Error(), testKey) {
		t.Errorf("the error shows the key: %v", err)
	}
}

var hostname = gputrain.Func("vastai.pid", func(_ context.Context, _ int) (int, error) { return os.Getpid(), nil })

// From Open to an empty account, with real SSH nodes.
func TestPool(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]gputrain.Spec{
		"on demand": {Nodes: 2, TTL: time.Hour},
		"spot":      {Nodes: 2, Allocation: gputrain.Spot, MaxHourlyUSD: 1, DiskGiB: 1},
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
