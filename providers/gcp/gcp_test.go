package gcp

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	second, cloud.Second = 20*time.Millisecond, time.Millisecond
	goleak.VerifyTestMain(m)
}

func (f *fake) config() Config { return Config{ProjectID: f.project, Endpoint: f.URL} }

func (f *fake) open(change ...func(*Config)) *gcpDriver {
	f.t.Helper()
	cfg := f.config()
	for _, c := range change {
		c(&cfg)
	}
	d, err := cfg.Open(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := d.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return d.(*gcpDriver)
}

func info(pool string) driver.PoolInfo {
	return driver.PoolInfo{ID: pool, Owner: "Host.12ab34cd/1/2", Lease: time.Minute, AuthorizedKey: cloudtest.PoolKey + " comment"}
}

var oneL4 = gputrain.Spec{Accelerator: accelerators.L4()}

func request(spec gputrain.Spec, o driver.Offer, ranks ...int) driver.Launch {
	req := driver.Launch{Pool: info("p1"), Offer: o, Query: spec.Query(), Token: "token-1"}
	for _, rank := range ranks {
		req.Nodes = append(req.Nodes, driver.NodeRequest{Rank: rank, Name: fmt.Sprintf("p1-%d", rank)})
	}
	return req
}

// launch launches nodes of the first offer for the spec.
func launch(t *testing.T, d *gcpDriver, spec gputrain.Spec, ranks ...int) ([]driver.Instance, error) {
	t.Helper()
	all := cloudtest.AllOffers(t, d, spec.Query())
	if len(all) == 0 {
		t.Fatal("no offers")
	}
	return d.Launch(t.Context(), request(spec, all[0], ranks...))
}

func mustLaunch(t *testing.T, d *gcpDriver, spec gputrain.Spec, rank int) driver.Instance {
	t.Helper()
	got, err := launch(t, d, spec, rank)
	return cloudtest.One(t, got, err)
}

// is checks that an error has a kind, and the form that all errors have.
func is(t *testing.T, err, kind error, op string) {
	t.Helper()
	cloudtest.Is(t, err, kind, "gcp", op)
}

// runScript runs a machine's startup script.
func (f *fake) runScript(m *fakecloud.Machine, script string, env []string) {
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = m.Home
	dir := filepath.Dir(m.Home)
	// With the environment of the machine's own processes, the script ends with the machine.
	cmd.Env = append(env, "HOME="+m.Home, "PATH="+filepath.Join(dir, "bin")+":/usr/local/bin:/usr/bin:/bin", "FAKECLOUD_MACHINE="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Errorf("startup-script: %v: %s", err, out)
	}
}

// A dialed provider reaches its machines by fakecloud.Dial, as the API knows no port but 22.
type dialed struct{ Config }

func (p dialed) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	return dialedDriver{d.(*gcpDriver)}, nil
}

type dialedDriver struct{ *gcpDriver }

func (dialedDriver) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	return fakecloud.Dial(ctx, in.SSH.Addr)
}

var hostPID = gputrain.Func("gcp.pid", func(_ context.Context, _ int) (int, error) { return os.Getpid(), nil })

// A pool works from Open to an empty project, with real SSH nodes.
func TestPool(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]gputrain.Spec{
		"on demand": {Accelerator: accelerators.L4(), Nodes: 2, TTL: time.Hour},
		"spot":      {Accelerator: accelerators.L4(), Nodes: 2, Allocation: driver.Spot, MaxHourlyUSD: 1, DiskGiB: 60},
		"no GPU":    {Nodes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "on demand" {
				t.Skip("scripts/test -deep runs it: a short run has one pool")
			}
			t.Parallel()
			f := startFake(t)
			f.runScripts, f.bootAfter = true, 50*time.Millisecond
			pool, err := gputrain.Open(t.Context(), dialed{f.config()}, spec, gputrain.WithStateDir(t.TempDir()))
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			results, err := pool.Broadcast(gputrain.Cmd("sh", "-c", "echo $GPUTRAIN_NODE_RANK"))
			if err != nil || len(results) != 2 || string(results[0].Stdout) != "0\n" || string(results[1].Stdout) != "1\n" {
				t.Errorf("%v, %v", results, err)
			}
			pids, err := hostPID.Broadcast(pool, 0)
			if err != nil || len(pids) != 2 || pids[0] == pids[1] || pids[0] == os.Getpid() {
				t.Errorf("%v, %v", pids, err)
			}
			for _, n := range pool.Nodes() {
				if usd, known := n.HourlyUSD.USD(); !known || usd <= 0 || n.Region != testZone {
					t.Errorf("%+v", n)
				}
			}
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
			if live := f.live(); len(live) != 0 {
				t.Errorf("left: %v", live)
			}
			for _, r := range f.Records(opInsert) {
				if strings.Contains(r.Body, `"SPOT"`) != (name == "spot") || strings.Contains(r.Body, "maxRunDuration") != (name == "on demand") {
					t.Errorf("%s: %s", name, r.Body)
				}
			}
		})
	}
}
