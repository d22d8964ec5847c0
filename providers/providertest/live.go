package providertest

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

// liveVariable makes Live rent: it is the maximum cost of a provider's test, in US dollars.
const liveVariable = "GPUTRAIN_LIVE"

// Live rents a machine of the real cloud, runs a command and a function there, ends it, and
// checks that the account holds nothing of it. It does so only if the variable GPUTRAIN_LIVE
// sets the maximum cost for each provider, in US dollars:
//
//	GPUTRAIN_LIVE=1.50 go test -run TestLive -v ./providers/...
//
// Then a missing credential, or an offer without a known price, fails the test. Live rents
// nothing that costs more in an hour, and the pool ends when that much is spent, or after half
// an hour. The program's TestMain must call gputrain.Init.
func Live(t *testing.T, provider driver.Provider, spec gputrain.Spec) {
	t.Helper()
	text := os.Getenv(liveVariable)
	if text == "" {
		t.Skip(liveVariable + " does not set how many US dollars this may cost")
	}
	usd, err := strconv.ParseFloat(text, 64)
	if err != nil || !(usd > 0) {
		t.Fatalf("%s is %q; it is the most that this may cost in US dollars, such as 1.50", liveVariable, text)
	}
	live(t, provider, spec, usd)
}

func live(t testing.TB, provider driver.Provider, spec gputrain.Spec, usd float64) {
	t.Helper()
	spec.Nodes, spec.BudgetUSD, spec.MaxHourlyUSD, spec.AllowUnknownPrice = 1, usd, usd, false
	spec.TTL, spec.Lease = 30*time.Minute, 5*time.Minute
	d, err := provider.Open(t.Context())
	if err != nil {
		t.Fatalf("%s is set, and %v", liveVariable, err)
	}
	defer d.Close()
	pool, err := gputrain.Open(t.Context(), provider, spec, gputrain.WithName("gputrain-live"), gputrain.WithEvents(func(e gputrain.Event) {
		t.Logf("%v node %d %s %s %v", e.Kind, e.Node, e.State, e.Phase, e.Err)
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cost := pool.Cost()
		if err := pool.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		t.Logf("it has cost about $%.4f, at $%.4f an hour", cost.USD, cost.HourlyUSD)
		if cost.USD > usd {
			t.Errorf("it has cost $%.4f; the maximum is $%.2f", cost.USD, usd)
		}
		wantNothingLeft(t, d, pool.ID())
	}()
	for _, n := range pool.Nodes() {
		t.Logf("node: %+v", n)
	}
	r, err := pool.Run(gputrain.Cmd("echo", "hello"))
	if err != nil || string(r.Stdout) != "hello\n" {
		t.Errorf("a command: %q, %v", r.Stdout, err)
	}
	if got, err := square.Run(pool, 7); err != nil || got != 49 {
		t.Errorf("a function: %v, %v", got, err)
	}
	if !spec.Accelerator.IsZero() { // Open has compared the node's accelerator with it
		r, err := pool.Run(gputrain.Script("! command -v nvidia-smi >/dev/null || nvidia-smi -L"))
		t.Logf("nvidia-smi: %s", r.Stdout)
		if err != nil {
			t.Errorf("nvidia-smi: %v", err)
		}
	}
}

// wantNothingLeft checks that the account's list, once complete, has nothing of a pool.
func wantNothingLeft(t testing.TB, d driver.Driver, poolID string) {
	t.Helper()
	until := time.Now().Add(d.Capabilities().ListLag)
	for {
		at := time.Now()
		listed, err := d.List(t.Context(), poolID)
		var left []string
		for _, r := range listed {
			if r.State != driver.InstanceTerminated {
				left = append(left, fmt.Sprintf("%s %s in %s at %v an hour", r.Kind, r.ID, r.Region, r.HourlyUSD))
			}
		}
		switch {
		case err != nil || len(left) > 0:
			t.Errorf("the account holds %q of pool %s (%v): look there, and end it by hand", left, poolID, err)
			return
		case at.After(until):
			return
		}
		time.Sleep(time.Second)
	}
}
