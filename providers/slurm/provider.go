package slurm

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A controller runs Slurm's commands for one configuration, and knows what the cluster is.
type controller struct {
	cfg   Config
	shell shell
	ahead string // shell text by which Slurm's commands are found
	found bool   // ahead does not change any more
	facts facts
}

// A slurmDriver submits jobs on one cluster.
type slurmDriver struct {
	controller
	user  string
	polls poll

	mu         sync.Mutex
	known      map[string]*memory   //secretvet:ignore no message formats a driver; a pool's key is public
	partitions map[string]partition // as they were last
	steps      bool                 // the login node forbids forwarding: nodes are reached by steps
}

var (
	_ driver.Driver      = (*slurmDriver)(nil)
	_ driver.Dialer      = (*slurmDriver)(nil)
	_ driver.Scripter    = (*slurmDriver)(nil)
	_ driver.LeaseMarker = (*slurmDriver)(nil)
)

func newDriver(c Config, sh shell, user string) *slurmDriver {
	return &slurmDriver{controller: controller{cfg: c, shell: sh, ahead: c.ahead(), found: c.Path != ""}, user: user, known: map[string]*memory{}, steps: c.Reach == ReachStep}
}

const (
	// lateSeconds bounds how long a submission may take effect after its answer was lost.
	lateSeconds = 180
	// readAttempts bounds the attempts at a command that may be repeated.
	readAttempts = 3
	// notFound is the exit status of a shell that has not found a command.
	notFound = 127
)

// Capabilities describe the cluster, as it was when the driver was opened.
func (d *slurmDriver) Capabilities() driver.Capabilities {
	cluster := d.facts.cluster
	if d.cfg.Clusters != "" {
		cluster = d.cfg.Clusters
	}
	caps := driver.Capabilities{
		Account:          cluster + "/" + d.user,
		LateEffect:       lateSeconds * cloud.Second,
		Free:             len(d.cfg.HourlyUSD) == 0,
		Spot:             len(d.facts.spot) > 0,
		EndsBilling:      "scancel",
		Queues:           true,
		PrivateNetwork:   true,
		Mounts:           true,
		Tags:             true,
		UserTags:         true,
		HostKeys:         driver.HostKeyPublished,
		ProvisionTimeout: d.cfg.QueueTimeout + upTimeout(d.cfg),
	}
	if d.facts.userSignal {
		caps.PreemptionNotice = d.facts.grace
	}
	return caps
}

// upTimeout bounds the time from a job's start until its SSH server has an address.
func upTimeout(c Config) time.Duration {
	if c.Container != "" {
		return 10 * time.Minute // its image may have to be fetched
	}
	return 2 * time.Minute
}

// Prepare does nothing: jobs share nothing.
func (d *slurmDriver) Prepare(ctx context.Context, _ driver.PoolInfo) error { return ctx.Err() }

// Release does nothing, as Prepare made nothing.
func (d *slurmDriver) Release(ctx context.Context, _ driver.PoolInfo) error { return ctx.Err() }

// Close ends the connection to the login node. Jobs go on.
func (d *slurmDriver) Close() error {
	err := d.shell.Close() // which ends a query under way
	d.polls.wait()
	return err
}

// read runs commands that may be repeated, and again if there is no good answer. Each must succeed. Those of the first read that are
// not found are looked for.
func (d *controller) read(ctx context.Context, commands ...command) (all []answer, err error) {
	for try := 1; ; try++ {
		var stderr string
		all, stderr, err = d.do(ctx, commands...)
		for i, a := range all {
			if a.code != 0 && err == nil {
				err = failure(commands[i].words[0], stderr, a.code)
			}
		}
		if !d.found && slices.ContainsFunc(all, func(a answer) bool { return a.code == notFound }) {
			d.found = true
			if d.findCommands(ctx) {
				try--
				continue
			}
		}
		again := errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrRateLimited)
		if !again || try == readAttempts || !retry.Sleep(ctx, time.Duration(try)*cloud.Second) {
			if err != nil && ctx.Err() != nil {
				err = errors.Join(context.Cause(ctx), err)
			}
			return all, err
		}
	}
}
