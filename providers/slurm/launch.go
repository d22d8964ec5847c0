package slurm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

var jobID = regexp.MustCompile(`^[0-9]{1,10}$`)

// submitAtOnce bounds the submissions at the same time: sites limit how often a user asks the controller.
const submitAtOnce = 4

// Launch submits a job for each node, and does not wait until they start.
func (d *slurmDriver) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	a, err := d.checkLaunch(req)
	if err != nil {
		return nil, fail("launch", err)
	}
	got, err := launches.Each(req.Nodes, submitAtOnce, func(n driver.NodeRequest) ([]driver.Instance, error) {
		id, err := d.launch(ctx, req, a, n)
		if err != nil && isOpen(err) {
			err = named(n.Name, err)
		}
		if err != nil { // a refusal is the account's or the partition's, and the same for all nodes
			err = fail("launch", err)
		}
		if id == "" {
			return nil, err
		}
		return []driver.Instance{{ID: id, Name: n.Name, Rank: n.Rank, State: driver.InstancePending, StateReason: "submitted", Offer: req.Offer}}, err
	}, isOpen)
	slices.SortFunc(got, func(a, b driver.Instance) int { return a.Rank - b.Rank })
	return got, err
}

// named adds a node's name to an error, and keeps its kind and its hint.
func named(name string, err error) error {
	known, ok := err.(*driver.Error)
	if !ok || known.Provider != "" {
		return fmt.Errorf("%s: %w", name, err)
	}
	e := *known
	e.Err = fmt.Errorf("%s: %w", name, known.Err)
	return &e
}

// isOpen reports whether a failed launch may have made a job.
func isOpen(err error) bool {
	var call driver.CallError
	if errors.As(err, &call) && call.Answered() {
		return false
	}
	return errors.Is(err, driver.ErrUnavailable) || errors.Is(err, context.Canceled)
}

// checkLaunch refuses what no job can be, before anything is submitted.
func (d *slurmDriver) checkLaunch(req driver.Launch) (ask, error) {
	if err := pooltag.CheckPool(req.Pool.ID); err != nil {
		return ask{}, err
	}
	for _, n := range req.Nodes {
		if err := pooltag.CheckNode(req.Pool.ID, n.Name); err != nil {
			return ask{}, err
		}
	}
	key := strings.TrimSpace(req.Pool.AuthorizedKey)
	if key == "" || hasControl(key) {
		return ask{}, fmt.Errorf("%w: the pool's public key is not one line", driver.ErrInvalid)
	}
	unsupported := func(hint, format string, args ...any) (ask, error) {
		return ask{}, &driver.Error{Kind: driver.ErrUnsupported, Err: fmt.Errorf(format, args...), Hint: hint}
	}
	switch {
	case len(req.Packages.Apt) > 0:
		return unsupported("use Config.Container, Config.Setup with \"module load\", or Image.Pip", "Image.Apt: a job cannot install system packages on a node, as it is not root")
	case req.Query.Image != "":
		return unsupported("set Config.Container", "Image.Docker: a job has no Docker on its node")
	}
	if err := d.cfg.checkMounts(req.Query.Mounts); err != nil {
		return ask{}, err
	}
	a, err := d.askOf(req.Offer, req.Query)
	if err != nil {
		return ask{}, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	a.limit, err = d.limitFor(req)
	return a, err
}

// launch submits the job of a node. Its ID is there beside an error if the job exists.
func (d *slurmDriver) launch(ctx context.Context, req driver.Launch, a ask, n driver.NodeRequest) (id string, err error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	c := commentOf(req.Pool, n, time.Now())
	submit := command{words: d.sbatch(a, n, c.String()), input: d.batch(req.Pool, c, req.Query.Mounts)}
	defer d.polls.forget()
	answers, stderr, err := d.do(ctx, submit)
	if err == nil {
		id, err = submitted(answers[0], stderr)
	}
	if err != nil && isOpen(err) {
		id, err = d.settle(ctx, req.Pool, n.Name, err)
	}
	if id == "" {
		return "", err
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	n.HostKey = driver.HostKey{}
	d.mu.Lock()
	defer d.mu.Unlock()
	*d.remember(id) = memory{node: n, offer: req.Offer, launched: time.Now()}
	return id, err
}

// submitted reads the answer of sbatch --parsable: "17" or "17;cluster".
func submitted(a answer, stderr string) (string, error) {
	if a.code != 0 {
		return "", failure("sbatch", stderr, a.code)
	}
	id, _, _ := strings.Cut(strings.TrimSpace(a.out), ";")
	if !jobID.MatchString(id) {
		return "", unreadable("sbatch", a.out+stderr)
	}
	return id, nil
}

// settle looks for the job of a node whose submission was not answered: until it is there, or could not be made any more.
// Of several it takes the first, and cancels the others.
func (d *slurmDriver) settle(ctx context.Context, pool driver.PoolInfo, name string, why error) (string, error) {
	return cloud.Search[string]{
		Pool: pool, Name: name, Why: why, Lag: lateSeconds * cloud.Second, Pause: 2 * cloud.Second,
		Find: func(ctx context.Context) (string, bool, error) { return d.adopt(ctx, pool.ID, name) },
	}.Settle(ctx)
}

// adopt finds the first job of a node that is not over, and cancels the others.
func (d *slurmDriver) adopt(ctx context.Context, poolID, name string) (id string, ok bool, err error) {
	answers, err := d.read(ctx, d.squeue("--name="+pooltag.Prefix+name))
	if err != nil {
		return "", false, err
	}
	jobs, err := parseQueue(answers[0].out)
	if err != nil {
		return "", false, err
	}
	var alive []job
	for _, j := range jobs {
		if j.nodeName() == name && j.comment.Pool == poolID && !stateOf(j.state).final {
			alive = append(alive, j)
		}
	}
	if len(alive) == 0 {
		return "", false, nil
	}
	slices.SortFunc(alive, func(a, b job) int { return int(number(a.id) - number(b.id)) })
	var others []string
	for _, j := range alive[1:] {
		others = append(others, j.id)
	}
	return alive[0].id, true, d.cancel(ctx, others...)
}
