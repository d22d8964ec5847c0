package runpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
)

// settleTime is how long it may take to find out what became of a create.
const settleTime = 30 * time.Second

// Launch creates a pod for each node, or a cluster for all. What REST v2 does not know
// goes by GraphQL.
func (d *driver) Launch(ctx context.Context, req gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	order, err := d.order(ctx, req)
	if err != nil {
		return nil, fail("launch", err)
	}
	if order.mode == Instant {
		got, err := d.launchCluster(ctx, order)
		return got, fail("launch", err)
	}
	made, err := launches.Each(req.Nodes, callsAtOnce, func(node gputrain.NodeRequest) (got []gputrain.Instance, err error) {
		in, err := d.launch(ctx, order, node)
		if in.ID != "" {
			got = append(got, in)
		}
		if err != nil {
			err = order.fail(fmt.Errorf("%s: %w", node.Name, err))
		}
		return got, err
	}, isOpen)
	slices.SortFunc(made, func(a, b gputrain.Instance) int { return a.Rank - b.Rank })
	return made, err
}

// An order is a launch with all that Config calls by name looked up.
type order struct {
	placement
	req      gputrain.LaunchRequest //secretvet:ignore for the time of a launch, and no message formats it
	registry string
	mounts   *mounts
	networks bool     // by global networking
	centers  []string // where pods may be
}

func (d *driver) order(ctx context.Context, req gputrain.LaunchRequest) (order, error) {
	at, err := parsePlacement(req.Offer.ID)
	if err != nil {
		return order{}, err
	}
	if err := check(req); err != nil {
		return order{}, err
	}
	o := order{placement: at, req: req}
	if at.mode == Individual {
		if o.registry, err = d.registryID(ctx); err != nil {
			return order{}, err
		}
	}
	if center := at.dataCenter(); center != "" {
		o.centers = []string{center}
	}
	if o.networks = d.joins(o); o.networks {
		global, err := d.globalCenters(ctx)
		switch {
		case err != nil:
			return order{}, err
		case o.centers == nil:
			o.centers = slices.Sorted(maps.Keys(global))
		case !global[o.centers[0]]:
			o.networks = false // by NetworkingOn such a place was never offered
		}
	}
	volume, err := d.volume(ctx, req.Spec)
	switch {
	case err != nil:
		return order{}, err
	case volume != nil:
		o.mounts = &mounts{Network: []networkMount{{VolumeID: volume.ID, Path: req.Spec.Mounts[0].Target}}}
	case d.cfg.VolumeGB >= 0 && !at.cpu() && at.mode == Individual:
		o.mounts = &mounts{Persistent: &persistentMount{Size: cmp.Or(d.cfg.VolumeGB, 20), Path: cmp.Or(d.cfg.VolumeMountPath, "/workspace")}}
	}
	return o, nil
}

// fail is fail, with what only an order can advise.
func (o order) fail(err error) error {
	err = fail("launch", err)
	if e := (*gputrain.Error)(nil); o.networks && errors.As(err, &e) && e.Kind == gputrain.ErrNoCapacity {
		e.Hint = "pods with global networking are in some data centres only; Config.GlobalNetworking of NetworkingOff has them anywhere"
	}
	return err
}

func check(req gputrain.LaunchRequest) error {
	if strings.TrimSpace(req.Pool.AuthorizedKey) == "" {
		return fmt.Errorf("%w: the pool has no public key", gputrain.ErrInvalid)
	}
	for _, n := range req.Nodes {
		m := nodeName.FindStringSubmatch(prefix + n.Name)
		if m == nil || m[2] != req.Pool.ID {
			return fmt.Errorf("%w: %q is not the name of a node of %s", gputrain.ErrInvalid, n.Name, req.Pool.ID)
		}
		if n.HostKey.Private == "" || n.HostKey.Public == "" {
			return fmt.Errorf("%w: %s has no host key", gputrain.ErrInvalid, n.Name)
		}
	}
	return nil
}

// byGraphQL is whether v2 cannot create what is ordered.
func (d *driver) byGraphQL(o order) bool {
	after := d.cfg.TerminateAfter && !o.req.Pool.Expires.IsZero()
	return o.spot || !o.cpu() && (o.country() != "" || d.cfg.restricted() || after)
}

// joins is whether the pods of an order get global networking.
func (d *driver) joins(o order) bool {
	can := o.mode == Individual && o.cloud == Secure && o.nvidia() && !d.byGraphQL(o)
	nodes := max(o.req.Spec.Nodes, o.req.Spec.MaxNodes, len(o.req.Nodes))
	switch d.cfg.GlobalNetworking {
	case NetworkingOn:
		return can
	case NetworkingOff:
		return false
	}
	return can && nodes >= 2
}

// launch creates one node's pod. One whose create is given up in its midst is looked for,
// and returned beside why, where it is there.
func (d *driver) launch(ctx context.Context, o order, node gputrain.NodeRequest) (gputrain.Instance, error) {
	if ctx.Err() != nil {
		return gputrain.Instance{}, context.Cause(ctx)
	}
	var p pod
	var err error
	switch {
	case d.byGraphQL(o):
		p, err = d.rentPod(ctx, o, node)
	case o.cloud == Community: // where only GraphQL can ask for a public address, without which there is no SSH
		if p, err = d.rentPod(ctx, o, node); !isClosed(err) {
			break
		}
		fallthrough
	default:
		p, err = d.createPod(ctx, o, node)
	}
	if err != nil && isAmbiguous(err) {
		settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		found, lookErr := d.find(settling, node.Name)
		if lookErr != nil || found == nil {
			return gputrain.Instance{}, errors.Join(err, lookErr)
		}
		p, err = *found, nil
	}
	if err != nil {
		return gputrain.Instance{}, err
	}
	d.remember(p.ID, node, o.req.Offer)
	return d.instance(p), context.Cause(ctx)
}

// find returns the pod of a node, if there is one.
func (d *driver) find(ctx context.Context, name string) (*pod, error) {
	all, err := d.client.pods(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for what it made: %w", err)
	}
	for _, p := range all {
		if p.Name == prefix+name && p.Status != "TERMINATED" {
			return &p, nil
		}
	}
	return nil, nil
}

func (d *driver) createPod(ctx context.Context, o order, node gputrain.NodeRequest) (pod, error) {
	spec := o.req.Spec
	in := createPod{
		Name: prefix + node.Name, Image: d.cfg.image(o.nvidia()), Args: startCommand(), Cloud: strings.ToUpper(string(o.cloud)),
		DataCenterIDs: o.centers, Disk: d.cfg.disk(o.cpu(), spec.DiskGiB), Mounts: o.mounts, Ports: d.cfg.ports(), Registry: o.registry,
		Env: d.environment(o.req, []gputrain.NodeRequest{node}, time.Now()), StartSSH: true, GlobalNetworking: o.networks,
	}
	if o.cpu() {
		in.CPU = &cpuRequest{ID: o.id, VCPUCount: o.count}
	} else {
		perGPU := func(want float64) int { return int(math.Ceil(want / float64(o.count))) }
		in.GPU = &gpuRequest{
			ID: o.id, Count: o.count, MinCUDAVersion: d.cfg.minCUDA(o.nvidia()),
			MinRAMPerGPU: perGPU(spec.MemoryGiB), MinVCPUPerGPU: perGPU(spec.VCPUs),
		}
	}
	return d.client.createPod(ctx, in)
}

// rentPod creates a pod by GraphQL. Its answer says little of the pod: reads say the rest.
func (d *driver) rentPod(ctx context.Context, o order, node gputrain.NodeRequest) (pod, error) {
	spec := o.req.Spec
	env := d.environment(o.req, []gputrain.NodeRequest{node}, time.Now())
	in := rentPod{
		Name: prefix + node.Name, ImageName: d.cfg.image(o.nvidia()), GPUTypeID: o.id, GPUCount: o.count, CloudType: strings.ToUpper(string(o.cloud)),
		DataCenterID: o.dataCenter(), CountryCode: o.country(), ContainerDiskInGB: d.cfg.disk(false, spec.DiskGiB),
		Ports: strings.Join(d.cfg.ports(), ","), DockerArgs: startCommand(), Env: variables(env),
		MinVCPUCount: int(math.Ceil(spec.VCPUs)), MinMemoryInGB: int(math.Ceil(spec.MemoryGiB)),
		MinDownload: d.cfg.MinDownloadMbps, MinUpload: d.cfg.MinUploadMbps, MinCUDAVersion: d.cfg.minCUDA(o.nvidia()),
		SupportPublicIP: true, StartSSH: true, ContainerRegistryAuthID: o.registry,
	}
	switch {
	case o.mounts == nil:
	case o.mounts.Persistent != nil:
		in.VolumeInGB, in.VolumeMountPath = o.mounts.Persistent.Size, o.mounts.Persistent.Path
	default:
		in.NetworkVolumeID, in.VolumeMountPath = o.mounts.Network[0].VolumeID, o.mounts.Network[0].Path
	}
	if !o.req.Pool.Expires.IsZero() && (o.spot || d.cfg.TerminateAfter) {
		in.TerminateAfter = o.req.Pool.Expires.Add(afterTTL).UTC().Format(time.RFC3339)
	}
	rent := d.client.rentOnDemand
	if o.spot {
		price, known := o.req.Offer.HourlyUSD.USD()
		if !known || price <= 0 {
			return pod{}, fmt.Errorf("%w: the offer has no price to bid", gputrain.ErrInvalid)
		}
		in.BidPerGPU, rent = math.Round(price/float64(o.count)*1e6)/1e6, d.client.rentSpot
	} else {
		in.DeployCost = spec.MaxHourlyUSD
	}
	r, err := rent(ctx, in)
	return pod{ID: r.ID, Name: in.Name, Status: "PROVISIONING", DataCenterID: r.Machine.DataCenterID, Cloud: in.CloudType, Cost: r.CostPerHr, Env: env}, err
}
