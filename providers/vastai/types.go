package vastai

// The parts of the API's answers that are used. Rows have about a hundred columns that change
// often, so unknown ones are ignored.

// An ask is a row of the search: one slice of a machine for rent.
type ask struct {
	ID                int64    `json:"id"`
	MachineID         int64    `json:"machine_id"`
	GPUName           string   `json:"gpu_name"`
	NumGPUs           int      `json:"num_gpus"`
	GPURAM            float64  `json:"gpu_ram"`   // MB, of one GPU
	CPUCores          *float64 `json:"cpu_cores"` // the whole host's
	CPUCoresEffective float64  `json:"cpu_cores_effective"`
	CPURAM            float64  `json:"cpu_ram"` // MB, the whole host's
	DiskSpace         float64  `json:"disk_space"`
	DPHBase           *float64 `json:"dph_base"`     // USD an hour for all GPUs, without disk
	DPHTotal          *float64 `json:"dph_total"`    // the same with the disk asked about
	MinBid            *float64 `json:"min_bid"`      // USD an hour for all GPUs, without disk
	StorageCost       *float64 `json:"storage_cost"` // USD a month for a GB of disk
	CUDAMaxGood       float64  `json:"cuda_max_good"`
	Reliability       *float64 `json:"reliability"`
	Reliability2      *float64 `json:"reliability2"` // the same, by its newer name
	Verification      string   `json:"verification"`
	DirectPortCount   int      `json:"direct_port_count"`
	InetDown          float64  `json:"inet_down"`
	InetUp            float64  `json:"inet_up"`
	InetDownCost      *float64 `json:"inet_down_cost"` // USD a GB
	InetUpCost        *float64 `json:"inet_up_cost"`
	Geolocation       *string  `json:"geolocation"`
	Rentable          *bool    `json:"rentable"`
	Rented            *bool    `json:"rented"`
	Duration          *float64 `json:"duration"` // seconds until the host takes it back
	EndDate           *float64 `json:"end_date"` // the same as a time
	ClusterID         *int64   `json:"cluster_id"`
}

// A createRequest accepts an ask. Without a price it rents on demand, whatever the search.
type createRequest struct {
	ClientID      string            `json:"client_id"`
	Image         string            `json:"image"`
	Disk          float64           `json:"disk"`
	Label         string            `json:"label"`
	RunType       string            `json:"runtype"`
	TargetState   string            `json:"target_state"`
	CancelUnavail bool              `json:"cancel_unavail"`
	ImageLogin    string            `json:"image_login,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	OnStart       string            `json:"onstart"`
	Price         *float64          `json:"price,omitempty"`
}

// An instance is a rented container.
type instance struct {
	ID             int64                 `json:"id"`
	ActualStatus   *string               `json:"actual_status"`
	IntendedStatus string                `json:"intended_status"`
	CurState       string                `json:"cur_state"`
	NextState      string                `json:"next_state"`
	StatusMsg      *string               `json:"status_msg"`
	Label          *string               `json:"label"`
	MachineID      int64                 `json:"machine_id"`
	GPUName        string                `json:"gpu_name"`
	NumGPUs        int                   `json:"num_gpus"`
	IsBid          bool                  `json:"is_bid"`
	DPHTotal       *float64              `json:"dph_total"`
	StorageCost    *float64              `json:"storage_cost"` // USD a month for a GB of disk
	DiskSpace      float64               `json:"disk_space"`   // GB
	SSHHost        string                `json:"ssh_host"`
	SSHPort        int                   `json:"ssh_port"`
	PublicIPAddr   string                `json:"public_ipaddr"` // may end in whitespace
	Ports          map[string][]hostPort `json:"ports"`         // none until it runs
	ImageRunType   string                `json:"image_runtype"`
	StartDate      *float64              `json:"start_date"`
	Geolocation    string                `json:"geolocation"`
}

// A hostPort is the address of a container's port.
type hostPort struct {
	HostIP   string `json:"HostIp"`
	HostPort string `json:"HostPort"` // a number, as text
}

// A page is a page of the list of instances. Instances is nil if the answer has none, which
// differs from an empty list.
type page struct {
	Instances *[]instance `json:"instances"`
	Total     *int        `json:"total_instances"`
	NextToken *string     `json:"next_token"`
}

// An sshKey is a key of the account. The documentation calls its text key, the service
// public_key.
type sshKey struct {
	ID        int64  `json:"id"`
	Key       string `json:"key"`
	PublicKey string `json:"public_key"`
}

// An overlay is a network of containers in one cluster.
type overlay struct {
	ID            int64   `json:"overlay_id"`
	Name          string  `json:"name"`
	ClusterID     int64   `json:"cluster_id"`
	InstanceCount int     `json:"instance_count"`
	Instances     []int64 `json:"instances"`
}

// A user is the account.
type user struct {
	ID      int64    `json:"id"`
	Credit  *float64 `json:"credit"` // USD that can be spent
	Balance *float64 `json:"balance"`
}
