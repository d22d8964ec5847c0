package all

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/internal/byname"
)

// data are the fields of each Config, by their paths, that choose no program to run. A credential is one: cmd:// in any text is
// refused by itself. So is a name of what the user has made elsewhere, such as a profile of AWS or a context, and what a
// rented machine or a container starts from.
var data = map[string]string{
	"aws":           "AMI AccessKeyID AddressURL AllocationStrategy CapacityBlock CapacityReservationID CapacityReservationPreference ClusterPlacement DiskGB Endpoint ExcludeBurstable ImportKeyPair InstanceProfileARN InstanceProfilePolicy InstanceTimeout Profile Region RequestTimeout SSHFrom SecretAccessKey SecurityGroupID SessionToken SubnetID UbuntuVersion Username",
	"colab":         "AcceptAnyGPU Endpoint.Host Endpoint.HostKey Endpoint.Port Endpoint.User KeepCache KeyFile",
	"container":     "GPUs Image Labels NamePrefix Network OwnGPUs PassEnv Platform ShmSizeGiB User",
	"gcp":           "Credentials DiskSizeGB DiskType Endpoint Image InstanceTimeout MachineType MaxRunDuration Network NoFirewall NoPrices PrivateIP ProjectID Region RequestTimeout Reservation SSHPort SSHUser ServiceAccount SourceRanges Subnet ThreadPoolSize TrustFirstContact Zone",
	"hyperstack":    "APIKey Endpoint Image NetworkOptimised NetworkOptimisedRegions Regions RequestTimeout SSHUser TeardownPollInterval TeardownTimeout",
	"jarvislabs":    "APIKey Endpoint Region RegionEndpoints RequestTimeout StorageGB Template ThreadPoolSize",
	"kubernetes":    "Affinity Annotations Autoscaled Contexts EphemeralGiB GPULabel GPUNames GPUResource Image Istio Labels Namespace NodeSelector PendingTimeout PriceByGPU PriorityClass PullPolicy PullSecrets Queue Reach RequestTimeout RuntimeClass Scheduler ServiceAccount Shapes.Count Shapes.GPU Shapes.HourlyUSD Shapes.MemoryGiB Shapes.NodeSelector Shapes.Spot Shapes.VCPUs ShmSizeGiB Tolerations.Effect Tolerations.Key Tolerations.Operator Tolerations.Value Unprivileged Volumes.Claim Volumes.Path Volumes.ReadOnly",
	"lambda":        "APIKey Endpoint FileSystems ImageFamily LaunchInterval Region RequestTimeout",
	"local":         "Dir PassEnv",
	"massedcompute": "APIKey Coupon Endpoint ImageID KeepPassword RequestTimeout",
	"novita":        "APIKey AllowPasswordAtFirstContact ClusterID Endpoint Image MinCUDAVersion RegistryAuthID RegistryPassword RegistryUser RequestTimeout RootFSSize",
	"runpod":        "APIKey BidMultiplier BootstrapTimeout CPUClock Cloud ClusterMode ContainerDiskGB CountryCodes DataCenterIDs Endpoint ExcludeCountryCodes GlobalNetworking Image InstanceTimeout MinCUDAVersion MinDownloadMbps MinUploadMbps PodEndpoint Ports ProvisionTimeout RegistryAuth RequestTimeout TerminateAfter Ubuntu VolumeGB VolumeMountPath",
	"scaleway":      "Endpoint Image ProjectID RequestTimeout SecretKey USDPerEUR Zone",
	"sim":           "Account Endpoint Token",
	"slurm":         "Account CPUsPerGPU Clusters CommandTimeout Constraint Exclusive GPUNames HourlyUSD Jump.Addr Jump.HostKey Jump.KeyFile Jump.KnownHosts Jump.Labels Jump.User Login.Addr Login.HostKey Login.KeyFile Login.KnownHosts Login.Labels Login.User MemoryPerGPUGiB Partitions PollInterval Ports PreemptiblePartitions QOS QueueTimeout Reach Reservation TimeLimit",
	"ssh":           "Hosts.Addr Hosts.HostKey Hosts.KeyFile Hosts.KnownHosts Hosts.Labels Hosts.User Jump.Addr Jump.HostKey Jump.KeyFile Jump.KnownHosts Jump.Labels Jump.User KeepCache",
	"tensordock":    "APIKey APIToken DedicatedIP Endpoint Location MarketplaceEndpoint MinRAMGB MinTier MinVCPUs OperatingSystem RequestTimeout SSHUser StorageGB",
	"vastai":        "APIKey AllowProxy AllowUnverified BidMultiplier DiskGB Endpoint Geolocation Image InstanceTimeout MaxTrafficUSDPerGB MinCUDA MinInetDown MinInetUp MinReliability OverlayTimeout Ports RegistryHost RegistryToken RegistryUser RequestTimeout TrustFirstContact UseOverlay",
	"verda":         "CUDA ClientID ClientSecret Endpoint Image Region RequestTimeout SSHKeyID",
	"vultr":         "APIKey Endpoint ImageID Mode OSID ProvisionTimeout Region RequestTimeout",
}

// Every field that a file can set is marked as data or as something that runs: a new one is neither, and fails here.
func TestEveryFieldIsMarked(t *testing.T) {
	for _, c := range set.Configs {
		name := c.Name()
		marked := strings.Fields(data[name])
		if !slices.IsSorted(marked) {
			t.Errorf("%s: the fields are not in order", name)
		}
		seen := map[string]bool{}
		for _, field := range fields(reflect.TypeOf(c), "") {
			top, _, _ := strings.Cut(field, ".")
			runs, isData := slices.Contains(byname.Runs[name], top) || slices.Contains(byname.Runs[name], field), slices.Contains(marked, field)
			seen[field], seen[top] = true, true
			if runs == isData {
				t.Errorf("%s.%s runs: %v, is data: %v; mark it once, in byname.Runs or here", name, field, runs, isData)
			}
		}
		for _, field := range append(marked, byname.Runs[name]...) {
			if !seen[field] {
				t.Errorf("%s has no field %s that a file can set", name, field)
			}
		}
	}
	for name := range data {
		if !slices.Contains(Names(), name) {
			t.Errorf("there is no provider %s", name)
		}
	}
}

// fields returns the paths of the fields of a struct that hold data, also in what they consist of. Others, such as an HTTPClient,
// no file can set.
func fields(t reflect.Type, at string) (paths []string) {
	for _, f := range reflect.VisibleFields(t) {
		inner := f.Type
		for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Array || inner.Kind() == reflect.Map {
			inner = inner.Elem()
		}
		switch inner.Kind() {
		case reflect.Func, reflect.Interface, reflect.Pointer, reflect.Chan:
		case reflect.Struct:
			paths = append(paths, fields(inner, at+f.Name+".")...)
		default:
			paths = append(paths, at+f.Name)
		}
	}
	return paths
}
