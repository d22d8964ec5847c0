package slurm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// The offers of two partitions, by what is free.
func TestOffers(t *testing.T) {
	r := newRig(t, func(c *Config, _ *cluster) {
		c.Partitions, c.CPUsPerGPU, c.HourlyUSD = []string{"gpu", "short"}, 4, map[string]float64{"gpu": 1.5}
	})
	list := func(q driver.Query) (all []string) {
		for o, err := range r.driver.Offers(t.Context(), q) {
			if err != nil {
				return append(all, err.Error())
			}
			all = append(all, fmt.Sprint(o.ID, " ", o.Accelerator, " ", o.HourlyUSD, " ", o.Available, " ", o.VCPUs, " ", o.Rejected))
		}
		return all
	}
	a100 := func(n float64) accelerators.Accelerator { return accelerators.A100(accelerators.Count(n)) }
	for _, tt := range []struct {
		q    driver.Query
		want []string
	}{
		{driver.Query{Accelerator: a100(2), Nodes: 2}, []string{"gpu/gpu:a100:2 A100:2 $3.00 4 8 ", "short/gpu:a100:2 A100:2 unknown 2 8 "}},
		{driver.Query{Accelerator: a100(4), Nodes: 3}, []string{"gpu/gpu:a100:4 A100:4 $6.00 0 16 ", "short/gpu:a100:4 A100:4 unknown 0 16 "}},
		{driver.Query{Nodes: 1, VCPUs: 65}, []string{
			"gpu/cpu cpu unknown 0 65 no node of partition gpu has cpu with 65 CPUs and 0.0 GiB of memory",
			"short/cpu cpu unknown 0 65 no node of partition short has cpu with 65 CPUs and 0.0 GiB of memory",
		}},
		{driver.Query{Accelerator: a100(8)}, []string{"slurm: no offers: no node of gpu, short has A100:8; set Partitions to others: sinfo -o '%P %G' shows what they have"}},
	} {
		if got := list(tt.q); !slices.Equal(got, tt.want) {
			t.Errorf("%+v:\n got %q\nwant %q", tt.q, got, tt.want)
		}
	}
	r.cluster.set(func() { r.cluster.nodes[0].state = "drain" })
	if got := list(driver.Query{Accelerator: a100(2), Nodes: 1}); len(got) != 2 || !strings.Contains(got[0], " 2 8 ") {
		t.Errorf("with a drained node: %q", got)
	}
}

// Untyped GPUs are taken to be what the query asks for, with a warning.
func TestUntypedGPUs(t *testing.T) {
	r := newRig(t, func(_ *Config, c *cluster) {
		for _, n := range c.nodes {
			n.gres, n.features = "gpu:4", "ib"
		}
	})
	if o := r.launch.Offer; o.InstanceType != "gpu:1" || o.Accelerator.Name != "A100" || !slices.Contains(o.Warnings, untypedWarning) {
		t.Errorf("%+v", o)
	}
	for o, err := range r.driver.Offers(t.Context(), driver.Query{Accelerator: accelerators.Any(accelerators.Memory(40))}) {
		if err == nil {
			t.Errorf("for any device: %+v", o)
		}
	}
}

// A login that is refused, a host key that is another, and a partition that does not exist are reported as such by Open.
func TestOpenErrors(t *testing.T) {
	l := startLogin(t, newCluster(t))
	for kind, change := range map[error]func(*Config){
		driver.ErrAuth:        func(c *Config) { _, c.Login.KeyFile, _ = testKey(t) },
		driver.ErrHostKey:     func(c *Config) { pair, _, _ := testKey(t); c.Login.HostKey = pair.Public },
		driver.ErrUnavailable: func(c *Config) { c.Login.Addr = "127.0.0.1:1" },
		driver.ErrInvalid:     func(c *Config) { c.Partitions = []string{"none"} },
	} {
		cfg := l.config()
		change(&cfg)
		if d, err := cfg.Open(t.Context()); !errors.Is(err, kind) {
			t.Errorf("%v: %v, %v", kind, d, err)
		}
	}
}
