package tensordock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// A number is a price or a size, which may be text. Anything else, or a missing one, is
// negative, which means unknown.
type number float64

const unknown number = -1

func (n *number) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(text, `"`)), 64)
	if err != nil || !(f >= 0) || math.IsInf(f, 0) {
		f = float64(unknown)
	}
	*n = number(f)
	return nil
}

// A signed number may be text, and below zero.
type signed float64

func (n *signed) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(text, `"`)), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("%s is not a number", text)
	}
	*n = signed(f)
	return nil
}

type location struct {
	ID      string     `json:"id"`
	City    string     `json:"city"`
	State   string     `json:"stateprovince"`
	Country string     `json:"country"`
	Tier    int        `json:"tier"`
	GPUs    []gpuStock `json:"gpus"`
}

// A gpuStock is a location's stock of one kind of GPU.
type gpuStock struct {
	Name      string  `json:"v0Name"`
	MaxCount  int     `json:"max_count"` // of the largest possible machine
	PerHour   *number `json:"price_per_hr"`
	Resources struct {
		VCPUs     int `json:"max_vcpus"`
		RAMGB     int `json:"max_ram_gb"`
		StorageGB int `json:"max_storage_gb"`
	} `json:"resources"`
	Pricing struct {
		VCPU      *number `json:"per_vcpu_hr"`
		RAMGB     *number `json:"per_gb_ram_hr"`
		StorageGB *number `json:"per_gb_storage_hr"`
	} `json:"pricing"`
	Network struct {
		Dedicated bool  `json:"dedicated_ip_available"`
		Forwards  *bool `json:"port_forwarding_available"`
	} `json:"network_features"`
}

type host struct {
	ID         string `json:"id"`
	LocationID string `json:"location_id"`
	Available  struct {
		GPUs []struct {
			Name  string `json:"v0Name"`
			Count int    `json:"availableCount"`
		} `json:"gpus"`
		Ports []int `json:"available_ports"`
	} `json:"available_resources"`
}

type forward struct {
	Internal int `json:"internal_port"`
	External int `json:"external_port"` // zero means any
}

// An order is the body of a create.
type order struct {
	Name       string     `json:"name"`
	Type       string     `json:"type"`
	Image      string     `json:"image"`
	Resources  resources  `json:"resources"`
	LocationID string     `json:"location_id"`
	Dedicated  bool       `json:"useDedicatedIp,omitempty"`
	Forwards   []forward  `json:"port_forwards,omitempty"`
	SSHKey     string     `json:"ssh_key"`
	CloudInit  *cloudInit `json:"cloud_init,omitempty"`
}

type resources struct {
	VCPUs     int                 `json:"vcpu_count"`
	RAMGB     int                 `json:"ram_gb"`
	StorageGB int                 `json:"storage_gb"`
	GPUs      map[string]gpuCount `json:"gpus"`
}

type gpuCount struct {
	Count int `json:"count"`
}

// A cloudInit is an object in the API, not cloud-init's own text.
type cloudInit struct {
	Files    []file   `json:"write_files"`
	Commands []string `json:"runcmd"`
}

type file struct {
	Path        string `json:"path"`
	Content     string `json:"content"`
	Owner       string `json:"owner"`
	Permissions string `json:"permissions"`
}

// A machine is a machine in any of the API's shapes.
type machine struct {
	ID        string
	Name      string
	Status    string
	IP        string
	Forwards  []forward
	PerHour   number
	Resources resources
}

// UnmarshalJSON reads a machine that is flat, wrapped in data, or has attributes, with either
// of the API's two spellings of names.
func (m *machine) UnmarshalJSON(text []byte) error {
	var in struct {
		ID            string          `json:"id"`
		Name          string          `json:"name"`
		Status        string          `json:"status"`
		IP            string          `json:"ipAddress"`
		SnakeIP       string          `json:"ip_address"`
		Forwards      []forward       `json:"portForwards"`
		SnakeForwards []forward       `json:"port_forwards"`
		PerHour       number          `json:"rateHourly"`
		Resources     json.RawMessage `json:"resources"`
		Attributes    json.RawMessage `json:"attributes"`
		Data          json.RawMessage `json:"data"`
	}
	in.PerHour = unknown
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	if in.ID == "" && len(in.Data) > 0 {
		return json.Unmarshal(in.Data, m)
	}
	if len(in.Attributes) > 0 { // missing ones stay
		if err := json.Unmarshal(in.Attributes, &in); err != nil {
			return err
		}
	}
	if in.IP == "" {
		in.IP = in.SnakeIP
	}
	if len(in.Forwards) == 0 {
		in.Forwards = in.SnakeForwards
	}
	*m = machine{in.ID, in.Name, in.Status, in.IP, in.Forwards, in.PerHour, resources{}}
	if json.Unmarshal(in.Resources, &m.Resources) != nil {
		m.Resources = resources{} // they have another form, and nothing depends on them
	}
	return nil
}

// listIn returns the list of that name: at the top of an answer, in data, or in
// data.attributes; or data itself is the list. It returns nil if there is none.
func listIn(text json.RawMessage, name string) json.RawMessage {
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] == '[' {
		return text
	}
	var in map[string]json.RawMessage
	if json.Unmarshal(text, &in) != nil {
		return nil
	}
	for _, within := range []string{name, "data", "attributes"} {
		if inner, there := in[within]; there {
			return listIn(inner, name)
		}
	}
	return nil
}
