package verda

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/currency"
)

// A decimal is a price, which the API writes as a string or as a number. Anything else is zero,
// which means unknown.
type decimal float64

func (d *decimal) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(text, `"`)), 64)
	if err != nil || !(f > 0) || math.IsInf(f, 0) {
		f = 0
	}
	*d = decimal(f)
	return nil
}

// rateOf returns the rate of a currency of the API. No code is that of US dollars, which the
// driver asks for.
func rateOf(code string) (currency.Rate, error) {
	return currency.Of(strings.ToUpper(cmp.Or(code, "usd")), 0)
}

// usd returns a price in that currency. It is unknown if the currency's value is.
func usd(d decimal, code string) driver.Price {
	rate, err := rateOf(code)
	if d == 0 || err != nil {
		return driver.Price{}
	}
	return driver.USD(float64(d) * rate.USD)
}

// Hardware describes a machine or a type of machines.
type hardware struct {
	InstanceType string `json:"instance_type"`
	CPU          struct {
		Cores float64 `json:"number_of_cores"`
	} `json:"cpu"`
	GPU struct {
		Description string `json:"description"`
		Count       int    `json:"number_of_gpus"`
	} `json:"gpu"`
	GPUMemory size `json:"gpu_memory"` // of all GPUs
	Memory    size `json:"memory"`
}

type size struct {
	GB float64 `json:"size_in_gigabytes"`
}

type instanceType struct {
	hardware
	Model        string  `json:"model"`
	Manufacturer string  `json:"manufacturer"`
	Price        decimal `json:"price_per_hour"`
	SpotPrice    decimal `json:"spot_price"`
	Currency     string  `json:"currency"`
	Warning      string  `json:"deploy_warning"`
}

// A volumeType is a kind of volume, with its price.
type volumeType struct {
	Type  string `json:"type"`
	Price struct {
		Monthly  decimal `json:"price_per_month_per_gb"`
		Currency string  `json:"currency"`
	} `json:"price"`
}

type stock struct {
	Location string   `json:"location_code"`
	Types    []string `json:"availabilities"`
}

type location struct {
	Code    string `json:"code"`
	Country string `json:"country_code"`
}

type image struct {
	ID        string   `json:"id"`
	Type      string   `json:"image_type"`
	Name      string   `json:"name"`
	IsDefault bool     `json:"is_default"`
	IsCluster bool     `json:"is_cluster"`
	Details   []string `json:"details"`
}

type sshKey struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Key  string `json:"key"`
}

type tag struct {
	ID    string `json:"id,omitempty"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

// An order is the body of a create.
type order struct {
	InstanceType string   `json:"instance_type"`
	Image        string   `json:"image"`
	Hostname     string   `json:"hostname"`
	Description  string   `json:"description"`
	Location     string   `json:"location_code"`
	SSHKeyIDs    []string `json:"ssh_key_ids"`
	IsSpot       bool     `json:"is_spot"`
	Contract     string   `json:"contract"`
	OSVolume     osVolume `json:"os_volume"`
	Tags         []tag    `json:"tags"`
}

type osVolume struct {
	Name       string `json:"name"`
	GB         int    `json:"size"`
	OnEviction string `json:"on_spot_discontinue,omitempty"` // refused on demand
	Tags       []tag  `json:"tags"`
}

type instance struct {
	hardware
	ID          string `json:"id"`
	IP          string `json:"ip"`
	Status      string `json:"status"`
	Hostname    string `json:"hostname"`
	Description string `json:"description"`
	Location    string `json:"location"`
	IsSpot      bool   `json:"is_spot"`
	CreatedAt   string `json:"created_at"`
	OSVolumeID  string `json:"os_volume_id"`
	Tags        []tag  `json:"tags"`
}

type action struct {
	Action      string   `json:"action"`
	IDs         []string `json:"id"`
	VolumeIDs   []string `json:"volume_ids,omitempty"` // an empty list would keep the system's
	Permanently bool     `json:"delete_permanently"`
}

type actionResult struct {
	InstanceID string `json:"instanceId"`
	Status     string `json:"status"`
	Error      string `json:"error"`
	StatusCode int    `json:"statusCode"`
}

type volume struct {
	ID         string  `json:"id"`
	Name       string  `json:"name"`
	Status     string  `json:"status"`
	Location   string  `json:"location"`
	CreatedAt  string  `json:"created_at"`
	HourlyCost decimal `json:"base_hourly_cost"`
	Currency   string  `json:"currency"`
	Tags       []tag   `json:"tags"`
	Deleted    bool    `json:"is_permanently_deleted"`
}

// moment reads a time. Zero means unknown.
func moment(text string) time.Time {
	t, _ := time.Parse(time.RFC3339, text)
	return t
}
