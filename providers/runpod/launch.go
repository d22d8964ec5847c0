package runpod

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// An order is a launch with the names in Config looked up.
type order struct {
	cloud.Order //secretvet:ignore for the time of a launch, and no message formats it
	placement
	registry string
	mounts   *mounts
	networks bool     // global networking
	centers  []string // the data centres for pods
}

func (a *api) order(ctx context.Context, of cloud.Order) (order, error) {
	at, err := parsePlacement(of.Offer.ID)
	if err != nil {
		return order{}, err
	}
	o := order{Order: of, placement: at}
	if at.mode == Individual {
		if o.registry, err = a.lookups.registryID(ctx); err != nil {
			return order{}, err
		}
	}
	if center := at.dataCenter(); center != "" {
		o.centers = []string{center}
	}
	if o.networks = a.joins(o); o.networks {
		global, err := a.lookups.globalCenters(ctx)
		switch {
		case err != nil:
			return order{}, err
		case o.centers == nil:
			o.centers = slices.Sorted(maps.Keys(global))
		case !global[o.centers[0]]:
			o.networks = false // NetworkingOn never offered such a place
		}
	}
	if of.Spec.Joined() && at.mode == Individual && !o.networks {
		return order{}, &driver.Error{Kind: driver.ErrNoCapacity, Err: fmt.Errorf("global networking cannot join offer %s, and the spec's Network is private", of.Offer.ID)}
	}
	volume, err := a.lookups.volume(ctx, of.Spec)
	switch {
	case err != nil:
		return order{}, err
	case volume != nil:
		o.mounts = &mounts{Network: []networkMount{{VolumeID: volume.ID, Path: of.Spec.Mounts[0].Target}}}
	case a.cfg.volume(at, of.Spec) > 0:
		o.mounts = &mounts{Persistent: &persistentMount{Size: a.cfg.volume(at, of.Spec), Path: cmp.Or(a.cfg.VolumeMountPath, "/workspace")}}
	}
	return o, nil
}

// byGraphQL reports whether v2 cannot create the order.
func (a *api) byGraphQL(o order) bool {
	after := a.cfg.TerminateAfter && !o.Pool.Expires.IsZero()
	return o.spot || !o.cpu() && (o.country() != "" || a.cfg.restricted() || after)
}

// joins reports whether the pods of an order get global networking.
func (a *api) joins(o order) bool {
	can := o.mode == Individual && o.cloud == Secure && o.nvidia() && !a.byGraphQL(o)
	switch a.cfg.GlobalNetworking {
	case NetworkingOn:
		return can
	case NetworkingOff:
		return false
	}
	return can && o.Spec.Nodes >= 2
}

// Create creates one node's pod. It uses GraphQL for what REST v2 lacks.
func (a *api) Create(ctx context.Context, of cloud.Order) (string, error) {
	o, err := a.order(ctx, of)
	if err != nil {
		return "", err
	}
	var p pod
	switch {
	case a.byGraphQL(o):
		p, err = a.rentPod(ctx, o)
	case o.cloud == Community: // only GraphQL can ask for a public address, which SSH needs
		if p, err = a.rentPod(ctx, o); !isClosed(err) {
			break
		}
		fallthrough
	default:
		p, err = a.createPod(ctx, o)
	}
	if err != nil {
		return "", o.advise(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rented[p.ID] = machine(p)
	return p.ID, nil
}

// advise adds a hint that depends on the order.
func (o order) advise(err error) error {
	if _, kind := (*api)(nil).Classify("launch", err); !o.networks || kind != driver.ErrNoCapacity {
		return err
	}
	return &driver.Error{Kind: driver.ErrNoCapacity, Err: err,
		Hint: "pods with global networking are in some data centres only; Config.GlobalNetworking of NetworkingOff has them anywhere"}
}

func (a *api) createPod(ctx context.Context, o order) (pod, error) {
	spec := o.Spec
	in := createPod{
		Name: o.Name(), Image: a.cfg.with(spec).image(o.nvidia()), Args: startCommand(), Cloud: strings.ToUpper(string(o.cloud)),
		DataCenterIDs: o.centers, Disk: a.cfg.disk(o.cpu(), spec.DiskGiB), Mounts: o.mounts, Ports: a.cfg.ports(), Registry: o.registry,
		Env: a.environment(o.Pool, o.Offer.ID, []driver.NodeRequest{o.Node}, time.Now()), StartSSH: true, GlobalNetworking: o.networks,
	}
	if o.cpu() {
		in.CPU = &cpuRequest{ID: o.id, VCPUCount: o.count}
	} else {
		perGPU := func(want float64) int { return int(math.Ceil(want / float64(o.count))) }
		in.GPU = &gpuRequest{
			ID: o.id, Count: o.count, MinCUDAVersion: a.cfg.with(spec).minCUDA(o.nvidia()),
			MinRAMPerGPU: perGPU(spec.MemoryGiB), MinVCPUPerGPU: perGPU(spec.VCPUs),
		}
	}
	return a.client.createPod(ctx, in)
}

// rentPod creates a pod by GraphQL. Its answer has few fields; reads have the rest.
func (a *api) rentPod(ctx context.Context, o order) (pod, error) {
	spec := o.Spec
	env := a.environment(o.Pool, o.Offer.ID, []driver.NodeRequest{o.Node}, time.Now())
	in := rentPod{
		Name: o.Name(), ImageName: a.cfg.with(spec).image(o.nvidia()), GPUTypeID: o.id, GPUCount: o.count, CloudType: strings.ToUpper(string(o.cloud)),
		DataCenterID: o.dataCenter(), CountryCode: o.country(), ContainerDiskInGB: a.cfg.disk(false, spec.DiskGiB),
		Ports: strings.Join(a.cfg.ports(), ","), DockerArgs: startCommand(), Env: variables(env),
		MinVCPUCount: int(math.Ceil(spec.VCPUs)), MinMemoryInGB: int(math.Ceil(spec.MemoryGiB)),
		MinDownload: a.cfg.MinDownloadMbps, MinUpload: a.cfg.MinUploadMbps, MinCUDAVersion: a.cfg.with(spec).minCUDA(o.nvidia()),
		SupportPublicIP: true, StartSSH: true, ContainerRegistryAuthID: o.registry,
	}
	switch {
	case o.mounts == nil:
	case o.mounts.Persistent != nil:
		in.VolumeInGB, in.VolumeMountPath = o.mounts.Persistent.Size, o.mounts.Persistent.Path
	default:
		in.NetworkVolumeID, in.VolumeMountPath = o.mounts.Network[0].VolumeID, o.mounts.Network[0].Path
	}
	if !o.Pool.Expires.IsZero() && (o.spot || a.cfg.TerminateAfter) {
		in.TerminateAfter = o.Pool.Expires.Add(afterTTL + a.client.v2.Ahead()).UTC().Format(time.RFC3339)
	}
	rent := a.client.rentOnDemand
	if o.spot {
		price, known := machineUSD(o.Offer)
		if !known || price <= 0 {
			return pod{}, fmt.Errorf("%w: the offer has no price for a bid", driver.ErrInvalid)
		}
		in.BidPerGPU, rent = math.Round(price/float64(o.count)*1e6)/1e6, a.client.rentSpot
	} else {
		in.DeployCost = max(spec.MaxHourlyUSD-monthly(storageUSD, in.ContainerDiskInGB+in.VolumeInGB), 0) // of the machine alone
	}
	r, err := rent(ctx, in)
	p := pod{ID: r.ID, Name: in.Name, Status: "PROVISIONING", DataCenterID: r.Machine.DataCenterID, Cloud: in.CloudType, Cost: r.CostPerHr, Env: env, Disk: in.ContainerDiskInGB}
	if o.mounts != nil {
		p.Mounts = *o.mounts
	}
	return p, err
}
