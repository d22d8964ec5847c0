package novita

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// A number is a number that the API writes as a string, as a number, or as nothing.
type number float64

// UnmarshalJSON reads any of these.
func (n *number) UnmarshalJSON(b []byte) error {
	text := string(bytes.Trim(b, `" `))
	if text == "" || text == "null" {
		*n = 0
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%s is not a number", b)
	}
	*n = number(v)
	return nil
}

type cluster struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// A product is a kind of machine. Prices are of one GPU, in 1/100,000 USD an hour.
type product struct {
	ID              string   `json:"id"` // opaque
	Name            string   `json:"name"`
	CPUPerGPU       float64  `json:"cpuPerGpu"`
	MemoryPerGPU    float64  `json:"memoryPerGpu"` // in GB
	AvailableDeploy bool     `json:"availableDeploy"`
	CanBuy          *bool    `json:"canBuy"`
	InventoryState  string   `json:"inventoryState"`
	Price           number   `json:"price"`
	SpotPrice       number   `json:"spotPrice"`
	BillingMethods  []string `json:"billingMethods"`
	Regions         []string `json:"regions"` // "US-CA-06 (California)"
	MaxRootFS       int      `json:"maxRootFS"`
}

// create is the body of POST create.
type create struct {
	Name           string `json:"name"`
	ProductID      string `json:"productId"`
	GPUNum         int    `json:"gpuNum"`
	RootFSSize     int    `json:"rootfsSize"`
	ImageURL       string `json:"imageUrl"`
	ImageAuth      string `json:"imageAuth,omitempty"` // "user:password"
	ImageAuthID    string `json:"imageAuthId,omitempty"`
	Kind           string `json:"kind"`
	BillingMode    string `json:"billingMode"`
	ClusterID      string `json:"clusterId,omitempty"`
	MinCUDAVersion string `json:"minCudaVersion"`
}

// An instance is a container. Lists report it without SSH.
type instance struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	ClusterID   string `json:"clusterId"`
	Status      string `json:"status"`
	ProductName string `json:"productName"`
	StatusError struct {
		State   string `json:"state"`
		Message string `json:"message"`
	} `json:"statusError"`
	BillingMode     string `json:"billingMode"`
	SpotStatus      string `json:"spotStatus"`
	SpotReclaimTime number `json:"spotReclaimTime"` // Unix seconds; zero means none
	SSH             struct {
		Command   string `json:"sshCommand"`
		Password  string `json:"password"`
		IsRunning *bool  `json:"isRunning"`
	} `json:"connectComponentSSH"`

	// Older answers have these instead of SSH.
	SSHCommand  string `json:"sshCommand"`
	SSHPassword string `json:"sshPassword"`
}

// detail is an answer about one instance, which some answers wrap in another object.
type detail struct{ instance }

// UnmarshalJSON reads either form.
func (d *detail) UnmarshalJSON(b []byte) error {
	var in struct {
		Instance *instance `json:"instance"`
		Data     *instance `json:"data"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	switch {
	case in.Instance != nil:
		d.instance = *in.Instance
	case in.Data != nil:
		d.instance = *in.Data
	default:
		return json.Unmarshal(b, &d.instance)
	}
	return nil
}
