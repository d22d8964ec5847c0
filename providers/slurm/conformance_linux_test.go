package slurm

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
	"github.com/gputrain/gputrain/providers/providertest"
	"github.com/gputrain/gputrain/providers/ssh"
)

// config returns a configuration for a fake cluster.
func (l *fakeLogin) config() Config {
	return Config{
		Login: ssh.Host{Addr: l.addr, User: currentUser(l.cluster.t), KeyFile: l.keyFile, HostKey: l.hostKey}, SSHD: l.cluster.sshd,
		PollInterval: time.Nanosecond, CommandTimeout: 20 * time.Second,
	}
}

// currentUser returns the user of this program, which is that of the fake's jobs.
func currentUser(t testing.TB) string {
	t.Helper()
	_, name, err := newLocal()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestConformance(t *testing.T) {
	providertest.RunParallel(t, func(t *testing.T) providertest.Harness {
		c := newCluster(t)
		return harness(t, c, startLogin(t, c))
	})
}

func harness(t *testing.T, c *cluster, l *fakeLogin) providertest.Harness {
	wrong := l.config()
	_, wrong.Login.KeyFile, _ = testKey(t)
	keyless := l.config()
	keyless.Login.KeyFile = ""
	const nothingShared = "Prepare and Release run no command"
	return providertest.Harness{
		Provider:   l.config(),
		Spec:       gputrain.Spec{Accelerator: accelerators.A100()},
		Account:    c.account,
		Calls:      c.callsOf,
		Fault:      c.inject,
		Foreign:    c.foreign,
		States:     c.states,
		Stall:      func() { c.set(func() { c.stalled = true }) },
		Room:       func(n int) { c.set(func() { c.room = n }) },
		Tags:       c.tags,
		MissingKey: &providertest.MissingKey{Provider: keyless, Names: "SSH_AUTH_SOCK"},
		WrongKey:   wrong,
		Secrets:    []string{l.secret},
		Without: map[string]string{
			"Funds":                     "a cluster has no money",
			"Allow":                     "a cluster tells no quota before a job is submitted: Room makes it refuse one",
			"Unpriced":                  "prices are those of Config.HourlyUSD: TestOffers",
			"PagedOffers":               "sinfo has no pages",
			"Metered":                   "a cluster has no meter: a price is the user's own",
			"offers name their country": "a cluster does not say where it is",
			"calls that are redirected to another server": "SSH has no redirects",
			"read that waits for Retry-After":             "Slurm names no time to wait for",
			"cancel in the midst of prepare":              nothingShared,
			"cancel in the midst of release":              nothingShared,
		},
	}
}

func (c *cluster) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// account returns the jobs that are not over.
func (c *cluster) account() (all []driver.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		if !stateOf(j.state).final {
			all = append(all, driver.Resource{Kind: "machine", ID: j.id, Name: strings.TrimPrefix(j.name, pooltag.Prefix)})
		}
	}
	return all
}

// foreign submits jobs that are not gputrain's, one of which has a name like a pool's.
func (c *cluster) foreign() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range []string{"train", "gputrain-eval"} {
		c.lastID++
		j := &fakeJob{id: strconv.Itoa(c.lastID), name: name, state: "RUNNING", reason: "None", partition: "gpu", submitted: time.Now(), start: time.Now(), limit: "1:00:00", foreign: true}
		c.write("comment."+j.id, "pool=mine expires=never")
		c.jobs = append(c.jobs, j)
		ids = append(ids, j.id)
	}
	return ids
}

// states are Slurm's states of a job that has run.
func (c *cluster) states() (all []providertest.StateCase) {
	ends := func(state string) func(string) {
		return func(id string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			j := c.job(id)
			j.force = state
			j.kill(c)
		}
	}
	becomes := func(state string) func(string) {
		return func(id string) { c.set(func() { c.job(id).state = state }) }
	}
	for _, s := range []struct {
		vendor string
		set    func(string) func(string)
		want   driver.InstanceState
	}{
		{"RUNNING", becomes, driver.InstanceRunning},
		{"SUSPENDED", becomes, driver.InstanceStopped},
		{"STOPPED", becomes, driver.InstanceStopped},
		{"COMPLETED", ends, driver.InstanceTerminated},
		{"CANCELLED", ends, driver.InstanceTerminated},
		{"TIMEOUT", ends, driver.InstanceTerminated},
		{"DEADLINE", ends, driver.InstanceTerminated},
		{"OUT_OF_MEMORY", ends, driver.InstanceFailed},
		{"NODE_FAIL", ends, driver.InstanceFailed},
		{"PREEMPTED", ends, driver.InstancePreempted},
		{"TELEPORTED", becomes, driver.InstanceUnknown},
	} {
		all = append(all, providertest.StateCase{Vendor: s.vendor, Set: s.set(s.vendor), Want: s.want})
	}
	return all
}

func (c *cluster) tags(id string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.job(id)
	return parseComment(j.name, c.comment(j)).tags
}
