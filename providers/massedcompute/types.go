package massedcompute

import (
	"encoding/json"
	"time"
)

// An item is a product and its stock.
type item struct {
	Product  product  `json:"instance_type"`
	Regions  []region `json:"regions_with_capacity_available"`
	Capacity *int     `json:"capacity_available"` // may be missing
}

type product struct {
	Name        string `json:"name"`
	Description string `json:"description"` // "1x L40 (48GB)", "1x H100 (80GB) [Spot]"
	Cents       int    `json:"price_cents_per_hour"`
	Specs       struct {
		VCPUs     float64 `json:"vcpu_count"`
		MemoryGiB float64 `json:"memory_gib"`
		StorageGB float64 `json:"storage_gb"`
	} `json:"specs"`
}

type region struct {
	Name string `json:"name"`
}

type sshKey struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	PublicKey string `json:"public_key"` // publicKey in a request
}

type launch struct {
	ImageID int      `json:"imageId"`
	Product string   `json:"productName"`
	Region  string   `json:"regionName"`
	Name    string   `json:"instanceName"`
	SSHKeys []string `json:"sshKeys"` // their names
	Coupon  string   `json:"coupon,omitempty"`
	Command string   `json:"command,omitempty"`
}

// An instance is a machine. Its password is left out: nothing needs it.
type instance struct {
	UUID     string `json:"uuid"`
	Name     string `json:"name"`
	IP       string `json:"ip"`
	Username string `json:"username"`
	Status   string `json:"status"`
	OSBooted int    `json:"os_booted"`
	Created  moment `json:"created"`
	Region   region `json:"region"`
	Product  rented `json:"product"`
}

// A rented product has other fields than an offered one.
type rented struct {
	Name        string  `json:"name"`
	Description string  `json:"description"`
	VCPUs       float64 `json:"vcpu"`
	MemoryGiB   float64 `json:"ram"`
	StorageGB   float64 `json:"storage"`
	HourlyUSD   string  `json:"price_hr"`       // decimal
	Charged     string  `json:"final_price_hr"` // after a coupon
}

// instances is an envelope: the list that the service sends, or the single machine that its
// description has.
type instances struct {
	Running *[]instance `json:"runningInstances"`
	Single  *instance   `json:"runningInstance"`
}

// A moment is a time, or zero if there is none.
type moment struct{ time.Time }

func (m *moment) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		m.Time, _ = time.Parse(time.RFC3339, s)
	}
	return nil
}
