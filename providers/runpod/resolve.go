package runpod

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/providers/driver"
)

// lookups resolve the names in Config and Spec.
type lookups struct {
	cfg    Config //secretvet:ignore without its key
	client *client

	mu       sync.Mutex
	registry *string      // the ID of the credential for images, once known
	centers  []dataCenter // nil until known
}

// registryID returns the credential for images, or "". If the default one is missing, or may
// not be read, images are pulled without it.
func (l *lookups) registryID(ctx context.Context) (string, error) {
	if l.cfg.RegistryAuth == noRegistry {
		return "", nil
	}
	l.mu.Lock()
	known := l.registry
	l.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	all, err := l.client.registries(ctx)
	if _, kind := (*api)(nil).Classify("", err); err != nil && (l.cfg.RegistryAuth != "" || kind != driver.ErrAuth) {
		return "", err
	}
	id, name := "", cmp.Or(l.cfg.RegistryAuth, defaultRegistry)
	for _, r := range all {
		if strings.EqualFold(r.Name, name) && id == "" {
			id = r.ID
		}
	}
	if id == "" && l.cfg.RegistryAuth != "" {
		return "", &driver.Error{Kind: driver.ErrNotFound, Err: fmt.Errorf("the account has no registry credential %q", name),
			Hint: "make it in RunPod's console under Settings, Container Registry Auth, or leave Config.RegistryAuth empty"}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.registry = &id
	return id, nil
}

// volume returns the network volume that the spec mounts, by its ID or its name.
func (l *lookups) volume(ctx context.Context, spec driver.Query) (*networkVolume, error) {
	if len(spec.Mounts) == 0 {
		return nil, nil
	}
	mount := spec.Mounts[0]
	switch {
	case len(spec.Mounts) > 1:
		return nil, fmt.Errorf("%w: a pod has one network volume; Spec.Mounts has %d", driver.ErrInvalid, len(spec.Mounts))
	case mount.ReadOnly:
		return nil, &driver.Error{Kind: driver.ErrUnsupported, Err: fmt.Errorf("RunPod mounts no volume read-only: %s", mount.Source)}
	case l.cfg.Cloud == Community:
		return nil, fmt.Errorf("%w: network volumes are only in the secure cloud", driver.ErrInvalid)
	}
	all, err := l.client.networkVolumes(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(v networkVolume) bool { return v.ID == mount.Source }); i >= 0 {
		return &all[i], nil
	}
	all = slices.DeleteFunc(all, func(v networkVolume) bool { return v.Name != mount.Source })
	switch len(all) {
	case 0:
		return nil, &driver.Error{Kind: driver.ErrNotFound, Err: fmt.Errorf("the account has no network volume %q", mount.Source),
			Hint: "make it in RunPod's console under Storage; Mount.Source is its ID or its name"}
	case 1:
		return &all[0], nil
	}
	return nil, fmt.Errorf("%w: %d network volumes have the name %q; use an ID", driver.ErrInvalid, len(all), mount.Source)
}

// allCenters returns the data centres.
func (l *lookups) allCenters(ctx context.Context) ([]dataCenter, error) {
	l.mu.Lock()
	known := l.centers
	l.mu.Unlock()
	if known != nil {
		return known, nil
	}
	all, err := l.client.dataCenters(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.centers = all
	return all, nil
}

// globalCenters returns the data centres with global networking.
func (l *lookups) globalCenters(ctx context.Context) (map[string]bool, error) {
	all, err := l.allCenters(ctx)
	global := map[string]bool{}
	for _, c := range all {
		if c.GlobalNetwork {
			global[c.ID] = true
		}
	}
	return global, err
}

// centersIn returns the data centres that a spec allows.
func (l *lookups) centersIn(ctx context.Context, spec driver.Query) ([]string, error) {
	all, err := l.allCenters(ctx)
	var in []string
	for _, c := range all {
		if spec.Allows(c.ID, countryOf(c.ID)) {
			in = append(in, c.ID)
		}
	}
	return in, err
}
