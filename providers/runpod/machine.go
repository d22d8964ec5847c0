package runpod

import (
	"cmp"
	"net"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// machine translates a pod.
func machine(p pod) cloud.Machine {
	in := driver.Instance{
		ID: p.ID, PrivateAddr: privateAddr(p), Offer: offerOf(p),
		Labels: map[string]string{labelDataCenter: p.DataCenterID, labelCloud: p.Cloud},
	}
	if p.Cluster != nil {
		in.Labels[labelCluster] = p.Cluster.ID
	}
	in.State, in.StateReason = stateOf(p.Status, in.Offer.Spot)
	if host, port, user := endpoint(p); host != "" && in.State == driver.InstanceRunning {
		in.PublicAddr = host
		in.SSH = driver.Endpoint{Addr: net.JoinHostPort(host, strconv.Itoa(port)), User: user}
		in.Ports = portsOf(p)
	}
	tag := tagOf(p)
	m := cloud.Machine{Instance: in, Tag: tag, Doubt: doubtOf(p, tag), Region: p.DataCenterID}
	if tag.Name == "" {
		m.ListAs, _, _ = strings.Cut(p.Env[tagNodes], ",")
	}
	return m
}

// clusterMachine represents a cluster without members. If its name is not a pool's, it has no
// tag.
func clusterMachine(k cluster) cloud.Machine {
	m := cloud.Machine{Instance: driver.Instance{ID: clusterID + k.ID, State: driver.InstancePending, StateReason: "a cluster without members"}, Region: k.DataCenterID}
	name, is := strings.CutSuffix(k.Name, ofCluster)
	if pool, node, _, ours := pooltag.ParseName(name); is && ours {
		m.ListAs, m.Tag = node, pooltag.Tag{Pool: pool, Name: node + ofCluster, Rank: -1, Created: moment(k.CreatedAt)}
	}
	return m
}

// stateOf maps RunPod's states. An exited pod is never started again: a spot pod was outbid,
// any other cannot come back by itself. Both keep a billed disk.
func stateOf(status string, spot bool) (driver.InstanceState, string) {
	switch status {
	case "PROVISIONING", "STARTING":
		return driver.InstancePending, status
	case "RUNNING":
		return driver.InstanceRunning, ""
	case "EXITED":
		if spot {
			return driver.InstancePreempted, "EXITED: RunPod stopped the spot pod"
		}
		return driver.InstanceFailed, "EXITED: the pod was stopped, by its image, by hand, or for lack of funds"
	case "ERROR":
		return driver.InstanceFailed, status
	case "TERMINATED":
		return driver.InstanceTerminated, status
	}
	return driver.InstanceUnknown, status
}

// endpoint returns the address of a pod's own SSH server, never of RunPod's proxy, which
// carries neither files nor input.
func endpoint(p pod) (host string, port int, user string) {
	if at := p.SSH.Direct; at != nil && at.Host != "" && at.Port > 0 {
		return at.Host, at.Port, cmp.Or(at.Username, "root")
	}
	if p.Runtime != nil {
		for _, at := range p.Runtime.Ports {
			if at.Private == 22 && at.Type == "tcp" && at.IP != "" && at.Public > 0 {
				return at.IP, at.Public, "root"
			}
		}
	}
	return "", 0, ""
}

func privateAddr(p pod) string {
	if p.Cluster != nil {
		return p.Cluster.IP
	}
	return cmp.Or(p.GlobalNetworking.IP, p.GlobalNetworking.InternalDNS)
}

// offerOf returns the offer in the pod's environment, completed by the pod's report.
func offerOf(p pod) driver.Offer {
	o := driver.Offer{ID: p.Env[tagOffer], Region: p.DataCenterID, Country: countryOf(p.DataCenterID)}
	if want, err := parsePlacement(o.ID); err == nil {
		o.Spot, o.Region = want.spot, want.region
	}
	switch {
	case p.GPU != nil:
		o.InstanceType, o.VCPUs, o.MemoryGiB = p.GPU.ID, p.GPU.VCPUCount, p.GPU.Memory
		o.Accelerator = cloud.Accelerator(providerName, p.GPU.ID, max(p.GPU.Count, 1), 0, accelerators.Accelerator{})
	case p.CPU != nil:
		o.InstanceType, o.VCPUs, o.MemoryGiB = p.CPU.ID, p.CPU.VCPUCount, p.CPU.Memory
	}
	return charged(o, p)
}

// portsOf returns the addresses of a pod's TCP ports, which RunPod maps to others.
func portsOf(p pod) map[int]string {
	ports := map[int]string{}
	if p.Runtime == nil {
		return ports
	}
	for _, at := range p.Runtime.Ports {
		if at.Type == "tcp" && at.IP != "" && at.Public > 0 {
			ports[at.Private] = net.JoinHostPort(at.IP, strconv.Itoa(at.Public))
		}
	}
	return ports
}
