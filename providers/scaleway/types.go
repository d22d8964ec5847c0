package scaleway

// A server is one machine.
type server struct {
	ID             string              `json:"id"`
	Name           string              `json:"name"`
	State          string              `json:"state"`
	StateDetail    string              `json:"state_detail"`
	CommercialType string              `json:"commercial_type"`
	Tags           []string            `json:"tags"`
	Created        string              `json:"creation_date"`
	PublicIP       *address            `json:"public_ip"` // from before there were several
	PublicIPs      []address           `json:"public_ips"`
	Volumes        map[string]attached `json:"volumes"`
}

type address struct {
	Address string `json:"address"`
	Family  string `json:"family"` // "inet" or "inet6"
}

// An attached volume, as a server reports it, has neither size nor tags.
type attached struct {
	ID         string `json:"id"`
	VolumeType string `json:"volume_type"`
}

// ownVolumes returns the ID of the volume that was made with a server and outlives it. Volumes
// attached later are a user's.
func (s server) ownVolumes() []string {
	if v := s.Volumes["0"]; v.VolumeType == "sbs_volume" && v.ID != "" {
		return []string{v.ID}
	}
	return nil
}

// ipv4 returns the first public address of version 4.
func (s server) ipv4() string {
	for _, ip := range s.PublicIPs {
		if ip.Family == "inet" && ip.Address != "" {
			return ip.Address
		}
	}
	if s.PublicIP != nil {
		return s.PublicIP.Address
	}
	return ""
}

// createServer is the body of POST servers.
type createServer struct {
	Name              string               `json:"name"`
	Project           string               `json:"project"`
	CommercialType    string               `json:"commercial_type"`
	Image             string               `json:"image"`
	DynamicIPRequired bool                 `json:"dynamic_ip_required"`
	BootType          string               `json:"boot_type"`
	Tags              []string             `json:"tags"`
	Volumes           map[string]newVolume `json:"volumes"`
}

type newVolume struct {
	Size       int64  `json:"size"` // in bytes, a multiple of 512
	VolumeType string `json:"volume_type"`
}

// A product is a type of machine, with its price in euros and its sizes in bytes.
type product struct {
	HourlyPrice  float64  `json:"hourly_price"`
	NCPUs        float64  `json:"ncpus"`
	RAM          float64  `json:"ram"`
	Arch         string   `json:"arch"`
	GPU          *int     `json:"gpu"` // null if there is none
	GPUInfo      *gpuInfo `json:"gpu_info"`
	EndOfService bool     `json:"end_of_service"`
}

type gpuInfo struct {
	Name   string  `json:"gpu_name"`
	Memory float64 `json:"gpu_memory"` // of each
}

func (p product) gpus() int {
	if p.GPU == nil {
		return 0
	}
	return *p.GPU
}

// A quotum limits the things of a kind that an organization may have, in each of its places.
type quotum struct {
	Name   string  `json:"name"` // "cp_servers_type_L4_1_24G"
	Limits []limit `json:"limits"`
}

// A limit of a quotum is global, or of a region, or of a zone.
type limit struct {
	Global    bool   `json:"global"`
	Region    string `json:"region"`
	Zone      string `json:"zone"`
	Limit     *int   `json:"limit"`
	Unlimited bool   `json:"unlimited"`
}

type localImage struct {
	ID    string   `json:"id"`
	Zone  string   `json:"zone"`
	Types []string `json:"compatible_commercial_types"`
}

// A volume is a volume of block storage, which is billed by itself.
type volume struct {
	ID   string   `json:"id"`
	Name string   `json:"name"`
	Tags []string `json:"tags"`
}
