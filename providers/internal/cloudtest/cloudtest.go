// Package cloudtest is shared by the tests of providers that use package cloud.
package cloudtest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
	"github.com/gputrain/gputrain/providers/providertest"
)

// Main is a package's TestMain: it shortens waiting, and fails on leftover goroutines.
func Main(m *testing.M) { MainAt(m, 10*time.Millisecond) }

// MainAt is [Main] with another length of a second.
func MainAt(m *testing.M, second time.Duration) {
	flag.Set("test.parallel", "8") // tests mostly wait; -parallel on the command line comes later, and counts
	cloud.Second = second          // also for what Init serves: a guardian
	gputrain.Init()
	if os.Getenv(doomedVariable) != "" {
		beDoomed()
	}
	goleak.VerifyTestMain(m)
}

// Variant leaves the suite for another kind of a provider's machines out of a short run.
func Variant(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: a short run has the suite once for each provider")
	}
}

// PoolKey is a public key whose private half need not be kept secret.
const PoolKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICOA76qIYROc7PnGRwv6p8T1jyHKUymIN5JXz3yFMJoB"

// Row is an object of an API.
type Row = map[string]any

// Info returns a pool with that ID.
func Info(pool string) driver.PoolInfo {
	return driver.PoolInfo{ID: pool, Owner: "host.12ab34cd/1/2", Lease: time.Minute, AuthorizedKey: PoolKey + " comment"}
}

// Open opens a driver and closes it with the test.
func Open(t testing.TB, p driver.Provider) driver.Driver {
	t.Helper()
	d, err := p.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// Prepared returns a driver whose pool p1 is prepared.
func Prepared(t testing.TB, p driver.Provider) driver.Driver {
	t.Helper()
	d := Open(t, p)
	if err := d.Prepare(t.Context(), Info("p1")); err != nil {
		t.Fatal(err)
	}
	return d
}

// AllOffers returns the offers for a spec, also those that the driver rejects.
func AllOffers(t testing.TB, d driver.Driver, spec driver.Query) (all []driver.Offer) {
	t.Helper()
	for o, err := range d.Offers(t.Context(), spec) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// Offers returns the offers for a spec that the driver does not reject.
func Offers(t testing.TB, d driver.Driver, spec driver.Query) (all []driver.Offer) {
	t.Helper()
	for _, o := range AllOffers(t, d, spec) {
		if o.Rejected == "" {
			all = append(all, o)
		}
	}
	return all
}

// Rejected returns the offers for a spec that the driver rejects, as "<instance type> in <region> <reason>".
func Rejected(t testing.TB, d driver.Driver, spec driver.Query) (all []string) {
	t.Helper()
	for _, o := range AllOffers(t, d, spec) {
		if o.Rejected != "" {
			all = append(all, fmt.Sprintf("%s in %s %s", o.InstanceType, o.Region, o.Rejected))
		}
	}
	return all
}

// Request returns a launch of the node with that rank in pool p1.
func Request(t testing.TB, spec driver.Query, o driver.Offer, rank int) driver.Launch {
	t.Helper()
	pair, err := ssh.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	host := driver.HostKey{Private: driver.Secret(pair.Private), Public: pair.Public}
	return driver.Launch{
		Pool: Info("p1"), Offer: o, Query: spec,
		Nodes: []driver.NodeRequest{{Rank: rank, Name: fmt.Sprintf("p1-%d", rank), HostKey: host}},
	}
}

// Launch launches one node of the first offer for a spec.
func Launch(t testing.TB, d driver.Driver, spec driver.Query, rank int) ([]driver.Instance, error) {
	t.Helper()
	all := Offers(t, d, spec)
	if len(all) == 0 {
		t.Fatal("no offers")
	}
	return d.Launch(t.Context(), Request(t, spec, all[0], rank))
}

// MustLaunch is Launch, and fails the test on an error.
func MustLaunch(t testing.TB, d driver.Driver, spec driver.Query, rank int) driver.Instance {
	t.Helper()
	got, err := Launch(t, d, spec, rank)
	return One(t, got, err)
}

// One returns the instance of a launch of one, and fails the test on an error.
func One(t testing.TB, got []driver.Instance, err error) driver.Instance {
	t.Helper()
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	return got[0]
}

// Describe reports one machine.
func Describe(t testing.TB, d driver.Driver, id string) driver.Instance {
	t.Helper()
	found, err := d.Describe(t.Context(), id)
	if err != nil || len(found) != 1 || found[0].ID != id {
		t.Fatalf("%+v, %v", found, err)
	}
	return found[0]
}

// Is checks that an error is of a kind, has the form of the provider's errors, and shows no
// secret.
func Is(t testing.TB, err, kind error, provider, op string, secrets ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v; want one that is %v", err, kind)
	}
	if e, ok := errors.AsType[*driver.Error](err); !ok || e.Provider != provider || e.Op != op {
		t.Errorf("%v is not an error of %s: %s", err, provider, op)
	}
	for _, s := range secrets {
		if err != nil && strings.Contains(err.Error(), s) {
			t.Errorf("the error shows %q: %v", s, err)
		}
	}
}

// Boot starts the machine that cloud-init would make of user data from cloud.UserData. It keeps
// the other fields of cfg.
func Boot(t testing.TB, userData string, cfg fakecloud.MachineConfig) *fakecloud.Machine {
	t.Helper()
	text, ok := strings.CutPrefix(userData, "#cloud-config\n")
	var c struct {
		Authorized []string          `json:"ssh_authorized_keys"`
		Keys       map[string]string `json:"ssh_keys"`
	}
	if err := json.Unmarshal([]byte(text), &c); !ok || err != nil {
		t.Errorf("user data is not cloud-init's: %v: %q", err, userData)
		return nil
	}
	if cfg.AuthorizedKey == "" && len(c.Authorized) > 0 {
		cfg.AuthorizedKey = c.Authorized[0]
	}
	if cfg.HostKey == "" {
		cfg.HostKey = c.Keys["ed25519_private"]
	}
	return fakecloud.NewMachine(t, cfg)
}

// States makes cases from the vendor's words for states. set puts the machine of that ID into a
// state.
func States(words map[string]driver.InstanceState, set func(id, word string)) func() []providertest.StateCase {
	return func() (cases []providertest.StateCase) {
		for _, word := range slices.Sorted(maps.Keys(words)) {
			cases = append(cases, providertest.StateCase{Vendor: word, Want: words[word], Set: func(id string) { set(id, word) }})
		}
		return cases
	}
}

// Machine returns a machine of a fake, for Harness.Account: its name is the node's.
func Machine(id, name any) driver.Resource {
	node := strings.TrimPrefix(fmt.Sprint(name), pooltag.Prefix)
	if tag := pooltag.FromName(fmt.Sprint(name)); tag.Pool != "" {
		node = tag.Name
	}
	return driver.Resource{Kind: "machine", ID: fmt.Sprint(id), Name: node}
}

// Key returns an SSH key of a fake, for Harness.Account.
func Key(id, name any) driver.Resource {
	return driver.Resource{Kind: "key", ID: fmt.Sprint(id), Name: fmt.Sprint(name)}
}

// Empty checks that an account has nothing left.
func Empty(t testing.TB, left []driver.Resource) {
	t.Helper()
	if len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}
