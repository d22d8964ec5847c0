package verda

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// imagesFor returns the images that a machine may start from, best first.
func (v *verda) imagesFor(ctx context.Context, instanceType string) ([]string, error) {
	if v.cfg.Image != "" {
		return []string{v.cfg.Image}, nil
	}
	v.mu.Lock()
	known := v.images[instanceType]
	v.mu.Unlock()
	if known != nil {
		return known, nil
	}
	all, err := v.client.images(ctx, instanceType)
	if err != nil {
		return nil, err
	}
	names := ranked(all, !strings.HasPrefix(instanceType, "CPU."), v.cfg.CUDA)
	if len(names) == 0 {
		return nil, &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("the API lists no such image for %s", instanceType), Hint: imageHint}
	}
	v.mu.Lock()
	v.images[instanceType] = names
	v.mu.Unlock()
	return names, nil
}

// ranked returns the images that a node can start from: Ubuntu 24.04 first, then for a GPU the
// newest CUDA, or only the wanted one, and without a GPU no CUDA, then Verda's default. Names
// have several forms: "ubuntu-24.04-cuda-13.0-open-docker", "24.04.cuda12.9.docker".
func ranked(all []image, gpu bool, wanted string) []string {
	type candidate struct {
		name                      string
		ubuntu, isDefault, docker bool
		cuda                      float64
	}
	var found []candidate
	for _, i := range all {
		text := strings.ToLower(strings.Join(append([]string{i.Type, i.Name}, i.Details...), " "))
		if i.IsCluster || strings.Contains(text, "jupyter") {
			continue
		}
		c := candidate{name: cmp.Or(i.Type, i.ID), ubuntu: strings.Contains(text, "24.04"), isDefault: i.IsDefault, docker: strings.Contains(text, "docker")}
		version := ""
		if m := cudaVersion.FindStringSubmatch(text); m != nil {
			version = m[1]
			c.cuda, _ = strconv.ParseFloat(version, 64)
		}
		if gpu && wanted != "" && version != wanted {
			continue
		}
		if !gpu {
			c.cuda = -c.cuda
		}
		found = append(found, c)
	}
	first := func(a, b bool) int {
		switch {
		case a == b:
			return 0
		case a:
			return -1
		}
		return 1
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(first(a.ubuntu, b.ubuntu), cmp.Compare(b.cuda, a.cuda), first(a.isDefault, b.isDefault), first(a.docker, b.docker))
	})
	var names []string
	for _, c := range found {
		names = append(names, c.name)
	}
	return names
}

var (
	cudaVersion = regexp.MustCompile(`cuda[- ]?(\d+\.\d+)`)
	cudaForm    = regexp.MustCompile(`^\d+\.\d+$`)
)
