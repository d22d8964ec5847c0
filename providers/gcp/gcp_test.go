package gcp

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestMain(m *testing.M) {
	second = 20 * time.Millisecond
	cloudtest.MainAt(m, time.Millisecond)
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
