package runpod

import "time"

// The parts of REST v2's requests and answers that are used.

type createPod struct {
	Name             string            `json:"name"`
	Image            string            `json:"image"`
	Args             string            `json:"args"`
	Cloud            string            `json:"cloud"`
	GPU              *gpuRequest       `json:"gpu,omitempty"`
	CPU              *cpuRequest       `json:"cpu,omitempty"`
	DataCenterIDs    []string          `json:"dataCenterIds,omitempty"`
	Disk             int               `json:"disk"`
	Mounts           *mounts           `json:"mounts,omitempty"`
	Ports            []string          `json:"ports"`
	Env              map[string]string `json:"env"`
	Registry         string            `json:"registry,omitempty"`
	StartSSH         bool              `json:"startSsh"`
	GlobalNetworking bool              `json:"globalNetworking,omitempty"`
}

type gpuRequest struct {
	ID             string `json:"id"`
	Count          int    `json:"count"`
	MinCUDAVersion string `json:"minCudaVersion,omitempty"`
	MinRAMPerGPU   int    `json:"minRamPerGpu,omitempty"`
	MinVCPUPerGPU  int    `json:"minVcpuCountPerGpu,omitempty"`
}

type cpuRequest struct {
	ID        string `json:"id"`
	VCPUCount int    `json:"vcpuCount"`
}

type mounts struct {
	Persistent *persistentMount `json:"persistent,omitempty"`
	Network    []networkMount   `json:"network,omitempty"`
}

type persistentMount struct {
	Size int    `json:"size"`
	Path string `json:"path"`
}

type networkMount struct {
	VolumeID string `json:"volumeId"`
	Path     string `json:"path"`
}

// A pod is a pod of v2. Its env may hold secrets: never print it.
type pod struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Status       string            `json:"status"`
	Env          map[string]string `json:"env"`
	Cloud        string            `json:"cloud"`
	DataCenterID string            `json:"dataCenterId"`
	Cost         float64           `json:"cost"` // USD an hour, without the storage
	Disk         int               `json:"disk"` // GB
	Mounts       mounts            `json:"mounts"`
	CreatedAt    string            `json:"createdAt"`
	GPU          *struct {
		ID        string  `json:"id"`
		Count     int     `json:"count"`
		VCPUCount float64 `json:"vcpuCount"`
		Memory    float64 `json:"memory"` // the system's, not the GPU's
	} `json:"gpu"`
	CPU *struct {
		ID        string  `json:"id"`
		VCPUCount float64 `json:"vcpuCount"`
		Memory    float64 `json:"memory"`
	} `json:"cpu"`
	SSH struct {
		Direct *struct {
			Host     string `json:"host"`
			Port     int    `json:"port"`
			Username string `json:"username"`
		} `json:"direct"`
	} `json:"ssh"`
	Runtime *struct {
		Ports []struct {
			Private int    `json:"private"`
			Public  int    `json:"public"`
			Type    string `json:"type"`
			IP      string `json:"ip"`
		} `json:"ports"`
	} `json:"runtime"`
	GlobalNetworking struct {
		Enabled     bool   `json:"enabled"`
		IP          string `json:"ip"`
		InternalDNS string `json:"internalDns"`
	} `json:"globalNetworking"`
	Cluster *struct {
		ID   string `json:"id"`
		Rank *int   `json:"rank"`
		IP   string `json:"ip"`
	} `json:"cluster"`
}

type createCluster struct {
	Name          string            `json:"name"`
	Type          string            `json:"type"`
	Compute       compute           `json:"compute"`
	Image         string            `json:"image"`
	Args          string            `json:"args"`
	Disk          int               `json:"disk"`
	Mounts        *mounts           `json:"mounts,omitempty"`
	Ports         []string          `json:"ports"`
	Env           map[string]string `json:"env"`
	DataCenterIDs []string          `json:"dataCenterIds,omitempty"`
	StartSSH      bool              `json:"startSsh"`
}

type compute struct {
	GPUTypeID      string `json:"gpuTypeId"`
	GPUCountPerPod int    `json:"gpuCountPerPod"`
	PodCount       int    `json:"podCount"`
}

type cluster struct {
	ID           string  `json:"id"`
	Name         string  `json:"name"`
	Compute      compute `json:"compute"`
	DataCenterID string  `json:"dataCenterId"`
	CreatedAt    string  `json:"createdAt"`
}

type gpuType struct {
	ID           string                              `json:"id"`
	Manufacturer string                              `json:"manufacturer"`
	Memory       float64                             `json:"memory"`
	Secure       bool                                `json:"secure"`
	Community    bool                                `json:"community"`
	Price        struct{ Secure, Community float64 } `json:"price"`
	MaxCount     struct{ Secure, Community int }     `json:"maxCount"`
	Availability string                              `json:"availability"`
	DataCenters  []stock                             `json:"dataCenters"`
}

type cpuType struct {
	ID           string                          `json:"id"`
	VCPU         struct{ Min, Max int }          `json:"vcpu"`
	RAMGBPerVCPU float64                         `json:"ramGbPerVcpu"`
	Price        struct{ SecurePerVCPU float64 } `json:"price"`
	Availability string                          `json:"availability"`
	DataCenters  []stock                         `json:"dataCenters"`
}

type stock struct {
	ID           string `json:"id"`
	Availability string `json:"availability"`
}

type dataCenter struct {
	ID            string `json:"id"`
	GlobalNetwork bool   `json:"globalNetwork"`
}

type networkVolume struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	DataCenter string `json:"dataCenter"`
}

type registry struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type pagination struct {
	NextCursor  string `json:"nextCursor"`
	HasNextPage bool   `json:"hasNextPage"`
}

// moment reads a time of the API. It returns zero for a malformed one.
func moment(s string) time.Time {
	t, _ := time.Parse(time.RFC3339, s)
	return t
}
