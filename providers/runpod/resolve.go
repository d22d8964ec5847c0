package runpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gputrain/gputrain"
)

// What Config and Spec call by name is looked up here.

// registryID returns the credential for images, or "". The one by default may be
// missing, and so may the right to look: images are pulled without it then.
func (d *driver) registryID(ctx context.Context) (string, error) {
	d.mu.Lock()
	known := d.registry
	d.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	all, err := d.client.registries(ctx)
	if err != nil && (d.cfg.RegistryAuth != "" || !errors.Is(fail("", err), gputrain.ErrAuth)) {
		return "", err
	}
	id, name := "", cmp.Or(d.cfg.RegistryAuth, defaultRegistry)
	for _, r := range all {
		if strings.EqualFold(r.Name, name) && id == "" {
			id = r.ID
		}
	}
	if id == "" && d.cfg.RegistryAuth != "" {
		return "", &gputrain.Error{Kind: gputrain.ErrNotFound, Err: fmt.Errorf("the account has no registry credential %q", name),
			Hint: "make it in RunPod's console under Settings, Container Registry Auth, or leave Config.RegistryAuth empty"}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.registry = &id
	return id, nil
}

// volume returns the network volume that the spec mounts, by its ID or its name.
func (d *driver) volume(ctx context.Context, spec gputrain.Spec) (*networkVolume, error) {
	if len(spec.Mounts) == 0 {
		return nil, nil
	}
	mount := spec.Mounts[0]
	switch {
	case len(spec.Mounts) > 1:
		return nil, fmt.Errorf("%w: a pod has one network volume; Spec.Mounts has %d", gputrain.ErrInvalid, len(spec.Mounts))
	case mount.ReadOnly:
		return nil, &gputrain.Error{Kind: gputrain.ErrUnsupported, Err: fmt.Errorf("RunPod mounts no volume read-only: %s", mount.Source)}
	case d.cfg.Cloud == Community:
		return nil, fmt.Errorf("%w: network volumes are in the secure cloud", gputrain.ErrInvalid)
	}
	all, err := d.client.networkVolumes(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(v networkVolume) bool { return v.ID == mount.Source }); i >= 0 {
		return &all[i], nil
	}
	all = slices.DeleteFunc(all, func(v networkVolume) bool { return v.Name != mount.Source })
	switch len(all) {
	case 0:
		return nil, &gputrain.Error{Kind: gputrain.ErrNotFound, Err: fmt.Errorf("the account has no network volume %q", mount.Source),
			Hint: "make it in RunPod's console under Storage; Mount.Source is its ID or its name"}
	case 1:
		return &all[0], nil
	}
	return nil, fmt.Errorf("%w: %d network volumes are called %q; take an ID", gputrain.ErrInvalid, len(all), mount.Source)
}

// allCenters returns the data centres.
func (d *driver) allCenters(ctx context.Context) ([]dataCenter, error) {
	d.mu.Lock()
	known := d.centers
	d.mu.Unlock()
	if known != nil {
		return known, nil
	}
	all, err := d.client.dataCenters(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.centers = all
	return all, nil
}

// globalCenters returns the data centres with global networking.
func (d *driver) globalCenters(ctx context.Context) (map[string]bool, error) {
	all, err := d.allCenters(ctx)
	global := map[string]bool{}
	for _, c := range all {
		if c.GlobalNetwork {
			global[c.ID] = true
		}
	}
	return global, err
}

// centersIn returns the data centres in regions: those that are called so, or begin so.
func (d *driver) centersIn(ctx context.Context, regions []string) ([]string, error) {
	all, err := d.allCenters(ctx)
	var in []string
	for _, c := range all {
		if slices.ContainsFunc(regions, func(r string) bool { return c.ID == r || strings.HasPrefix(c.ID, r+"-") }) {
			in = append(in, c.ID)
		}
	}
	return in, err
}
