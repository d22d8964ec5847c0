package hyperstack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// kinds counts the things in the account.
func (f *fake) kinds() map[string]int {
	n := map[string]int{}
	for _, r := range f.everything() {
		n[r.Kind]++
	}
	return n
}

// in returns an offer of a region.
func in(t *testing.T, d driver.Driver, region string) driver.Offer {
	t.Helper()
	all := cloudtest.AllOffers(t, d, h100.Query())
	i := slices.IndexFunc(all, func(o driver.Offer) bool { return o.Region == region })
	if i < 0 {
		t.Fatalf("%s has no offers: %+v", region, all)
	}
	return all[i]
}

// Nodes that are made at the same time share one environment. Each region has its own.
func TestOneEnvironmentPerPoolAndRegion(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	var mu sync.Mutex
	var recorded []string
	pool := cloudtest.Info("p1").WithRecord(func(r driver.Resource) error {
		mu.Lock()
		defer mu.Unlock()
		recorded = append(recorded, fmt.Sprintf("%s %s %v", r.Kind, r.Name, r.ID != ""))
		return nil
	})
	req := cloudtest.Request(t, h100.Query(), in(t, d, "CANADA-1"), 0)
	for rank := range 2 {
		req.Nodes = append(req.Nodes, cloudtest.Request(t, h100.Query(), req.Offer, rank+1).Nodes...)
	}
	req.Pool = pool
	if got, err := d.Launch(t.Context(), req); err != nil || len(got) != 3 {
		t.Fatalf("%v, %v", got, err)
	}
	req = cloudtest.Request(t, h100.Query(), in(t, d, "US-1"), 3)
	req.Pool = pool
	if _, err := d.Launch(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if n := f.kinds(); n["environment"] != 2 || n["key"] != 2 || n["machine"] != 4 {
		t.Errorf("%v", n)
	}
	const canada, us = "gputrain-p1-canada-1", "gputrain-p1-us-1"
	want := []string{
		"environment " + canada + " false", "environment " + canada + " true", "key " + canada + " false", "key " + canada + " true",
		"environment " + us + " false", "environment " + us + " true", "key " + us + " false", "key " + us + " true",
	}
	if !slices.Equal(recorded, want) {
		t.Errorf("%q; want %q", recorded, want)
	}
	all, err := cloudtest.Open(t, f.config()).List(t.Context(), "p1")
	if err != nil || len(all) != 8 {
		t.Errorf("%+v, %v", all, err)
	}
}

// An environment that cannot be recorded is not made.
func TestEnvironmentIsRecordedBeforeItIsMade(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	full := errors.New("the ledger's disk is full")
	req := cloudtest.Request(t, h100.Query(), in(t, d, "CANADA-1"), 0)
	req.Pool = req.Pool.WithRecord(func(driver.Resource) error { return full })
	if _, err := d.Launch(t.Context(), req); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if all := f.everything(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// An environment and a key pair whose answers are lost are found by their names.
func TestEnvironmentWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Inject(fakecloud.Fault{Op: opAddEnv, After: true, Cut: true})
	f.Inject(fakecloud.Fault{Op: opAddKey, After: true, Cut: true})
	cloudtest.MustLaunch(t, cloudtest.Prepared(t, f.config()), h100.Query(), 0)
	cloudtest.MustLaunch(t, cloudtest.Prepared(t, f.config()), h100.Query(), 1) // by another program
	if n := f.kinds(); n["environment"] != 1 || n["key"] != 1 || n["machine"] != 2 {
		t.Errorf("%v", n)
	}
}

func TestReleaseRemovesEnvironmentsAndKeys(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		f := startFake(t)
		f.keepKeys = keep
		d := cloudtest.Prepared(t, f.config())
		first := cloudtest.MustLaunch(t, d, h100.Query(), 0)
		if err := d.Terminate(t.Context(), first.ID); err != nil {
			t.Error(err)
		}
		if err := cloudtest.Open(t, f.config()).Release(t.Context(), cloudtest.Info("p1")); err != nil {
			t.Error(err)
		}
		// Without its environment a key pair cannot be found, so it must have been removed
		// with it.
		if all := f.everything(); len(all) > 0 {
			t.Errorf("environments take their key pairs along: %v; left: %+v", !keep, all)
		}
	}
}

// An environment cannot be removed while its machines are being deleted. Release waits for
// that. If it takes too long, the error names the environment.
func TestEnvironmentThatHasMachinesStill(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	d := cloudtest.Prepared(t, cfg)
	machine := cloudtest.MustLaunch(t, d, h100.Query(), 0)
	cfg.TeardownTimeout = 20 * time.Millisecond
	err := cloudtest.Open(t, cfg).Release(t.Context(), cloudtest.Info("p1"))
	cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "release", testKey)
	if !strings.Contains(err.Error(), "environment gputrain-p1-canada-1 (") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := d.Release(ctx, cloudtest.Info("p1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	refused := len(f.Records(opDelEnv))
	done := make(chan error, 1)
	go func() { done <- d.Release(context.WithoutCancel(t.Context()), cloudtest.Info("p1")) }()
	for len(f.Records(opDelEnv)) == refused {
		time.Sleep(time.Millisecond)
	}
	if err := d.Terminate(t.Context(), machine.ID); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if all := f.everything(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	cloudtest.MustLaunch(t, d, h100.Query(), 1) // makes another environment
}

// If the first answer to a deletion is lost, the last one counts.
func TestDeletionsWhoseAnswersAreLost(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.keepKeys = true
	d := cloudtest.Prepared(t, f.config())
	machine := cloudtest.MustLaunch(t, d, h100.Query(), 0)
	f.Do(func() { f.tooEarly = 1 })
	f.Inject(fakecloud.Fault{Op: opDelete, Cut: true})
	if err := d.Terminate(t.Context(), machine.ID); err != nil {
		t.Error(err)
	}
	f.Inject(fakecloud.Fault{Op: opDelEnv, After: true, Cut: true})
	f.Inject(fakecloud.Fault{Op: opDelKey, After: true, Cut: true})
	if err := d.Release(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Error(err)
	}
	if all := f.everything(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

func TestNetworkOptimised(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.NetworkOptimised = true
	f.flavors = append(f.flavors, flavorRow("CANADA-1", "n3-L40x1", "L40", 1, false))
	d := cloudtest.Prepared(t, cfg)
	for _, o := range cloudtest.AllOffers(t, d, driver.Query{}) {
		t.Errorf("%s in %s has no optimised network", o.InstanceType, o.Region)
	}
	req := cloudtest.Request(t, h100.Query(), in(t, d, "CANADA-1"), 0)
	_, err := d.Launch(t.Context(), req)
	cloudtest.Is(t, err, driver.ErrUnsupported, providerName, "launch", testKey)
	if n := f.kinds()["machine"]; n > 0 {
		t.Errorf("%d machines", n)
	}
	f.Do(func() { f.optimised = true })
	if err := d.Release(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Error(err)
	}
	if _, err := d.Launch(t.Context(), req); err != nil {
		t.Error(err)
	}
}

// NetworkOptimisedRegions are where a pool with NetworkOptimised is rented.
func TestNetworkOptimisedRegions(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.NetworkOptimised, cfg.NetworkOptimisedRegions = true, []string{"norway-1"}
	var regions []string
	for _, o := range cloudtest.AllOffers(t, cloudtest.Prepared(t, cfg), gputrain.Spec{Accelerator: accelerators.A100()}.Query()) {
		regions = append(regions, o.Region)
	}
	if len(regions) == 0 || slices.ContainsFunc(regions, func(r string) bool { return r != "NORWAY-1" }) {
		t.Errorf("%q", regions)
	}
}
