package container

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gputrain/gputrain"
)

// List reports the pool's containers, whatever their state, and its networks, or
// those of every pool.
func (d *driver) List(ctx context.Context, poolID string) ([]gputrain.Resource, error) {
	if poolID != "" {
		if err := checkPool(poolID); err != nil {
			return nil, fail("list", err)
		}
	}
	machines, err := d.containers(ctx, poolID)
	if err != nil {
		return nil, fail("list", err)
	}
	networks, err := d.networkReports(ctx, poolID)
	if err != nil {
		return nil, fail("list", err)
	}
	var resources []gputrain.Resource
	add := func(r gputrain.Resource) {
		r.Pool = cmp.Or(r.Pool, poolID)
		if poolName.MatchString(r.Pool) { // else somebody put our label on his own
			resources = append(resources, r)
		}
	}
	for _, m := range machines {
		r := resource("machine", m.id, m.name, m.labels)
		r.State, _ = stateOf(m)
		add(r)
	}
	for _, n := range networks {
		r := resource("network", n.Name, n.Name, n.Labels)
		if pool, named := strings.CutPrefix(n.Name, networkName("")); named && r.Pool == "" {
			r.Pool = pool // podman before 4 does not show labels
		}
		add(r)
	}
	return resources, nil
}

func (d *driver) containers(ctx context.Context, poolID string) ([]report, error) {
	if d.engine.dialect == apple {
		out, err := d.engine.run(ctx, "list", "--all", "--format", "json")
		if err != nil {
			return nil, err
		}
		reports, err := parseAppleReports(out)
		return slices.DeleteFunc(reports, func(r report) bool { return !isOf(poolID, r.labels) }), err
	}
	out, err := d.engine.run(ctx, "ps", "--all", "--quiet", "--no-trunc", "--filter", labelFilter(poolID))
	if err != nil {
		return nil, err
	}
	ids := strings.Fields(string(out))
	for _, id := range ids {
		if !containerID.MatchString(id) {
			return nil, fmt.Errorf("%s ps: an answer that is not understood: %.80q", d.engine.dialect, id)
		}
	}
	return d.inspect(ctx, ids)
}

// networkReports is networks with what the labels say.
func (d *driver) networkReports(ctx context.Context, poolID string) ([]networkReport, error) {
	if d.engine.dialect == apple {
		out, err := d.engine.run(ctx, "network", "list", "--format", "json")
		if err != nil {
			return nil, err
		}
		return parseAppleNetworks(out, poolID)
	}
	names, err := d.networks(ctx, poolID)
	if err != nil {
		return nil, err
	}
	return d.inspectNetworks(ctx, names)
}

// inspectNetworks reports those of the named networks that exist: another
// program may remove its own at any moment.
func (d *driver) inspectNetworks(ctx context.Context, names []string) ([]networkReport, error) {
	if len(names) == 0 {
		return nil, nil
	}
	out, err := d.engine.run(ctx, append([]string{"network", "inspect"}, names...)...)
	switch {
	case err == nil:
		return d.engine.dialect.parseNetworks(out)
	case !says(err, "not found", "no such network", "no network found", "unable to find any network"):
		return nil, err
	case len(names) == 1:
		return nil, nil
	}
	// What engines answer beside the failure differs: each is asked for alone.
	var reports []networkReport
	for _, name := range names {
		more, err := d.inspectNetworks(ctx, []string{name})
		if err != nil {
			return nil, err
		}
		reports = append(reports, more...)
	}
	return reports, nil
}

// A networkReport is what an engine says of a network.
type networkReport struct {
	Name   string
	Labels map[string]string
}

// parseNetworks reads the answer of "network inspect".
func (d dialect) parseNetworks(answer []byte) ([]networkReport, error) {
	var list []networkReport
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("%s network inspect: an answer that is not understood: %w", d, err)
	}
	for _, n := range list {
		if n.Name == "" {
			return nil, fmt.Errorf("%s network inspect: an answer without name", d)
		}
	}
	return list, nil
}

// parseAppleNetworks reads what Apple's "container network list --format json"
// prints. A pool's network is known by its name, those of all pools by the label.
func parseAppleNetworks(answer []byte, poolID string) ([]networkReport, error) {
	var list []struct {
		ID     string
		Config struct{ Labels map[string]string }
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("container network list: an answer that is not understood: %w", err)
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
		return fmt.Errorf("%w: %q is not the ID of a pool", gputrain.ErrInvalid, id)
	}
	return nil
}
