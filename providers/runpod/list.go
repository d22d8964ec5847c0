package runpod

import (
	"context"

	"github.com/gputrain/gputrain"
)

// List reports the pods that are a pool's, or any pool's, whatever their state, and the
// clusters that have no members yet. Stopped pods bill for their disks.
func (d *driver) List(ctx context.Context, poolID string) ([]gputrain.Resource, error) {
	clusters, err := d.client.clusters(ctx) // first, so that what gets its members meanwhile is in one of the lists
	if err != nil {
		return nil, fail("list", err)
	}
	pods, err := d.client.pods(ctx)
	if err != nil {
		return nil, fail("list", err)
	}
	var resources []gputrain.Resource
	peopled := map[string]bool{}
	for _, p := range pods {
		who, ours := identify(p)
		if !ours || poolID != "" && who.pool != poolID || p.Status == "TERMINATED" {
			continue
		}
		if p.Cluster != nil {
			peopled[p.Cluster.ID] = true
		}
		r := resource(p, who)
		if r.State = d.instance(p).State; r.State == gputrain.InstanceTerminated {
			continue
		}
		resources = append(resources, r)
	}
	for _, k := range clusters {
		m := nodeName.FindStringSubmatch(k.Name)
		if m == nil || m[4] == "" || peopled[k.ID] || poolID != "" && m[2] != poolID {
			continue
		}
		resources = append(resources, gputrain.Resource{
			Provider: providerName, Kind: "machine", ID: clusterID + k.ID, Name: m[1] + ofCluster, Region: k.DataCenterID,
			Pool: m[2], State: gputrain.InstancePending, Created: moment(k.CreatedAt),
		})
	}
	return resources, nil
}
