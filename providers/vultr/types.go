package vultr

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// A machine is an instance or a bare-metal server. A server has no power_status and no
// server_status, and its memory and disk are text.
type machine struct {
	ID           string   `json:"id"`
	Plan         string   `json:"plan"`
	Region       string   `json:"region"`
	Label        string   `json:"label"`
	Tags         []string `json:"tags"`
	Created      string   `json:"date_created"`
	MainIP       string   `json:"main_ip"`
	Status       string   `json:"status"`
	PowerStatus  string   `json:"power_status"`
	ServerStatus string   `json:"server_status"`
}

// A region is a place with its country's ISO code.
type region struct {
	ID      string `json:"id"`
	Country string `json:"country"`
}

// A createRequest is the body of a create.
type createRequest struct {
	Region          string   `json:"region"`
	Plan            string   `json:"plan"`
	OSID            int      `json:"os_id,omitempty"`
	ImageID         string   `json:"image_id,omitempty"`
	SnapshotID      string   `json:"snapshot_id,omitempty"`
	Label           string   `json:"label"`
	Hostname        string   `json:"hostname"`
	Tags            []string `json:"tags"`
	UserData        string   `json:"user_data"` // in base64
	Backups         string   `json:"backups,omitempty"`
	EnableIPv6      bool     `json:"enable_ipv6"`
	ActivationEmail bool     `json:"activation_email"`
}

// A plan is a kind of machine. Fields of the other mode are zero.
type plan struct {
	ID         string   `json:"id"`
	VCPUs      amount   `json:"vcpu_count"`
	CPUs       amount   `json:"cpu_count"`
	CPUThreads amount   `json:"cpu_threads"`
	RAM        amount   `json:"ram"`  // MiB
	Disk       amount   `json:"disk"` // GB of one disk; there may be several
	Locations  []string `json:"locations"`
	OnDemand   *bool    `json:"deploy_ondemand"`
	GPUType    string   `json:"gpu_type"` // "NVIDIA_L40S"
	GPUCount   amount   `json:"gpu_count"`
	GPUMemory  amount   `json:"gpu_vram_gb"` // of all GPUs
	GPUBrand   string   `json:"gpu_brand"`
	cost
	LocationCost locationCosts `json:"location_cost"`
}

// A cost is in USD.
type cost struct {
	Hourly  amount `json:"hourly_cost"`
	Monthly amount `json:"monthly_cost"`
}

// locationCosts are the costs in regions where they differ. If there are none, it may be an
// empty list instead of an object.
type locationCosts map[string]cost

func (l *locationCosts) UnmarshalJSON(text []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		*l = nil
		return nil
	}
	return json.Unmarshal(text, (*map[string]cost)(l))
}

// An amount is a number, which may be a string with a unit: "960 GB". Zero means unreadable, so
// unknown.
type amount float64

var leading = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?`)

func (a *amount) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseFloat(leading.FindString(strings.Trim(string(text), `" `)), 64)
	if err != nil {
		n = 0
	}
	*a = amount(n)
	return nil
}
