package hyperstack

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Parts of the API's requests and answers. Times are left out: they come with and without a
// zone, and the driver does not need them.

type user struct {
	Username string `json:"username"`
	Name     string `json:"name"`
}

// A credit is the account's money in US dollars. Below the threshold it makes no machines.
type credit struct {
	USD       *float64 `json:"credit"`
	Threshold float64  `json:"threshold"`
	CanCreate *bool    `json:"can_create_instance"`
}

type flavor struct {
	Name      string  `json:"name"`
	Region    string  `json:"region_name"`
	CPU       float64 `json:"cpu"`
	RAM       float64 `json:"ram"`  // GB
	Disk      float64 `json:"disk"` // GB, the root disk's
	GPU       string  `json:"gpu"`
	GPUCount  int     `json:"gpu_count"`
	InStock   *bool   `json:"stock_available"`
	Optimised struct {
		Network *bool `json:"network_optimised"`
	} `json:"features"`
}

type stock struct {
	Region string `json:"region"`
	Models []struct {
		Model          string            `json:"model"`
		Configurations map[string]number `json:"configurations"` // by "8x"
	} `json:"models"`
}

type price struct {
	Name  string `json:"name"`
	Value number `json:"value"`
}

// A number is a number or its text: "1.9", "0E-9". Null or anything else means unknown.
type number struct {
	value float64
	known bool
}

func (n *number) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(text), `" `), 64)
	n.value, n.known = v, err == nil
	return nil
}

type image struct {
	ID           int             `json:"id"`
	Name         string          `json:"name"`
	Region       string          `json:"region_name"`
	Restrictions json.RawMessage `json:"flavor_restrictions"`
}

type environment struct {
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Region   string `json:"region"`
	Features struct {
		NetworkOptimised bool `json:"network_optimised"`
	} `json:"features"`
}

type keypair struct {
	ID          int         `json:"id"`
	Name        string      `json:"name"`
	PublicKey   string      `json:"public_key"`
	Environment environment `json:"environment"`
}

type createMachine struct {
	Name              string   `json:"name"`
	EnvironmentName   string   `json:"environment_name"`
	FlavorName        string   `json:"flavor_name"`
	ImageName         string   `json:"image_name"`
	KeyName           string   `json:"key_name"`
	Count             int      `json:"count"`
	AssignFloatingIP  bool     `json:"assign_floating_ip"`
	PortRandomization bool     `json:"enable_port_randomization"` // true if it is left out
	Labels            []string `json:"labels"`
	UserData          string   `json:"user_data"`
	SecurityRules     []rule   `json:"security_rules"`
}

type rule struct {
	Direction      string `json:"direction"`
	EtherType      string `json:"ethertype"`
	Protocol       string `json:"protocol"`
	RemoteIPPrefix string `json:"remote_ip_prefix"`
	PortRangeMin   int    `json:"port_range_min,omitempty"`
	PortRangeMax   int    `json:"port_range_max,omitempty"`
}

type machine struct {
	ID          int         `json:"id"`
	Name        string      `json:"name"`
	Status      string      `json:"status"`
	FixedIP     string      `json:"fixed_ip"`
	FloatingIP  string      `json:"floating_ip"`
	Labels      []string    `json:"labels"`
	Environment environment `json:"environment"`
	Flavor      flavor      `json:"flavor"`
	Rules       []rule      `json:"security_rules"`
}

type event struct {
	Message string `json:"message"`
	Reason  string `json:"reason"`
}
