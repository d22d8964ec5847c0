package container

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// List lists the pool's containers, in any state, and its networks, or those of every pool.
func (d *containerDriver) List(ctx context.Context, poolID string) ([]driver.Resource, error) {
	if poolID != "" {
		if err := checkPool(poolID); err != nil {
			return nil, fail("list", err)
		}
	}
	machines, err := d.engine.containers(ctx, poolID)
	if err != nil {
		return nil, fail("list", err)
	}
	networks, err := d.engine.networkReports(ctx, poolID)
	if err != nil {
		return nil, fail("list", err)
	}
	images, err := d.bakery().unfinished(ctx, poolID)
	if err != nil {
		return nil, fail("list", err)
	}
	var resources []driver.Resource
	add := func(r driver.Resource) {
		r.Pool = cmp.Or(r.Pool, poolID)
		if poolName.MatchString(r.Pool) { // else a user has put our label on another container
			resources = append(resources, r)
		}
	}
	for _, m := range machines {
		r := resource("machine", m.id, m.node(), m.labels)
		r.State, _ = stateOf(m)
		if !strings.HasSuffix(m.name, m.node()) {
			r.Doubt = fmt.Sprintf("the engine calls it %q, and its label names node %q", m.name, m.node())
		}
		add(r)
	}
	for _, n := range networks {
		r := resource("network", n.Name, n.Name, n.Labels)
		if pool, named := strings.CutPrefix(n.Name, networkName("")); named && r.Pool == "" {
			r.Pool = pool // podman before 4 shows no labels
		}
		add(r)
	}
	for _, r := range images {
		add(r)
	}
	return resources, nil
}

func (e *engine) containers(ctx context.Context, poolID string) ([]report, error) {
	if e.dialect == apple {
		out, err := e.run(ctx, "list", "--all", "--format", "json")
		if err != nil {
			return nil, err
		}
		reports, err := parseAppleReports(out)
		return slices.DeleteFunc(reports, func(r report) bool { return !isOf(poolID, r.labels) }), err
	}
	return e.labelled(ctx, labelFilter(poolID))
}

// labelled returns the containers that a filter selects, in any state.
func (e *engine) labelled(ctx context.Context, filter string) ([]report, error) {
	out, err := e.run(ctx, "ps", "--all", "--quiet", "--no-trunc", "--filter", filter)
	if err != nil {
		return nil, err
	}
	ids := strings.Fields(string(out))
	for _, id := range ids {
		if !containerID.MatchString(id) {
			return nil, fmt.Errorf("%s ps: cannot read the answer: %.80q", e.dialect, id)
		}
	}
	return e.inspect(ctx, ids)
}

// networkReports returns the pool's networks, or every pool's, with their labels.
func (e *engine) networkReports(ctx context.Context, poolID string) ([]networkReport, error) {
	if e.dialect == apple {
		out, err := e.run(ctx, "network", "list", "--format", "json")
		if err != nil {
			return nil, err
		}
		return parseAppleNetworks(out, poolID)
	}
	names, err := e.networks(ctx, poolID)
	if err != nil {
		return nil, err
	}
	return e.inspectNetworks(ctx, names)
}

// inspectNetworks reports those of the named networks that exist: another program may remove
// its own at any moment.
func (e *engine) inspectNetworks(ctx context.Context, names []string) ([]networkReport, error) {
	if len(names) == 0 {
		return nil, nil
	}
	out, err := e.run(ctx, append([]string{"network", "inspect"}, names...)...)
	switch {
	case err == nil:
		return e.dialect.parseNetworks(out)
	case !says(err, "not found", "no such network", "no network found", "unable to find any network"):
		return nil, err
	case len(names) == 1:
		return nil, nil
	}
	// Engines differ in what they answer beside the failure: ask for each alone.
	var reports []networkReport
	for _, name := range names {
		more, err := e.inspectNetworks(ctx, []string{name})
		if err != nil {
			return nil, err
		}
		reports = append(reports, more...)
	}
	return reports, nil
}

// A networkReport is an engine's report of a network.
type networkReport struct {
	Name   string
	Labels map[string]string
}

// parseNetworks reads the answer of "network inspect".
func (d dialect) parseNetworks(answer []byte) ([]networkReport, error) {
	var list []networkReport
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("%s network inspect: cannot read the answer: %w", d, err)
	}
	for _, n := range list {
		if n.Name == "" {
			return nil, fmt.Errorf("%s network inspect: the answer has no name", d)
		}
	}
	return list, nil
}

// parseAppleNetworks reads the output of Apple's "container network list --format json". It
// finds a pool's network by its name, and those of all pools by the label.
func parseAppleNetworks(answer []byte, poolID string) ([]networkReport, error) {
	var list []struct {
		ID     string
		Config struct{ Labels map[string]string }
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("container network list: cannot read the answer: %w", err)
	}
	var reports []networkReport
	for _, n := range list {
		if poolID == "" && isOf("", n.Config.Labels) || poolID != "" && n.ID == networkName(poolID) {
			reports = append(reports, networkReport{Name: n.ID, Labels: n.Config.Labels})
		}
	}
	return reports, nil
}

var (
	containerID = regexp.MustCompile(`^[0-9a-f]{12,64}$`)
	poolName    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
)

func checkPool(id string) error {
	if !poolName.MatchString(id) {
		return fmt.Errorf("%w: %q is not the ID of a pool", driver.ErrInvalid, id)
	}
	return nil
}
