package runpod

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

// This file has what REST v2 lacks: spot, terminateAfter, placement by country and by line
// speed, public addresses of community pods, the prices of clusters, and the key's account with its
// money.
// RunPod has announced the end of GraphQL for early 2027; everything else works without it.

type rentPod struct {
	Name                    string     `json:"name"`
	ImageName               string     `json:"imageName"`
	GPUTypeID               string     `json:"gpuTypeId"`
	GPUCount                int        `json:"gpuCount"`
	CloudType               string     `json:"cloudType"`
	DataCenterID            string     `json:"dataCenterId,omitempty"`
	CountryCode             string     `json:"countryCode,omitempty"`
	ContainerDiskInGB       int        `json:"containerDiskInGb"`
	VolumeInGB              int        `json:"volumeInGb"`
	VolumeMountPath         string     `json:"volumeMountPath,omitempty"`
	NetworkVolumeID         string     `json:"networkVolumeId,omitempty"`
	Ports                   string     `json:"ports"`
	DockerArgs              string     `json:"dockerArgs"`
	Env                     []variable `json:"env"`
	MinVCPUCount            int        `json:"minVcpuCount,omitempty"`
	MinMemoryInGB           int        `json:"minMemoryInGb,omitempty"`
	MinDownload             int        `json:"minDownload,omitempty"`
	MinUpload               int        `json:"minUpload,omitempty"`
	MinCUDAVersion          string     `json:"minCudaVersion,omitempty"`
	SupportPublicIP         bool       `json:"supportPublicIp"`
	StartSSH                bool       `json:"startSsh"`
	ContainerRegistryAuthID string     `json:"containerRegistryAuthId,omitempty"`
	TerminateAfter          string     `json:"terminateAfter,omitempty"`

	BidPerGPU  float64 `json:"bidPerGpu,omitempty"`  // for spot pods
	DeployCost float64 `json:"deployCost,omitempty"` // for on-demand pods: the highest price of one for an hour
}

type variable struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// A rentedPod is GraphQL's answer for a new pod.
type rentedPod struct {
	ID        string
	CostPerHr float64
	Machine   struct{ DataCenterID string }
}

const rented = `{id costPerHr machine{dataCenterId}}`

// rentSpot rents a spot pod at a bid.
func (c *client) rentSpot(ctx context.Context, in rentPod) (rentedPod, error) {
	return c.rent(ctx, "podRentInterruptable", `mutation($in:PodRentInterruptableInput!){podRentInterruptable(input:$in)`+rented+`}`, in)
}

// rentOnDemand rents a pod as v2 does, with parameters that v2 lacks.
func (c *client) rentOnDemand(ctx context.Context, in rentPod) (rentedPod, error) {
	return c.rent(ctx, "podFindAndDeployOnDemand", `mutation($in:PodFindAndDeployOnDemandInput){podFindAndDeployOnDemand(input:$in)`+rented+`}`, in)
}

func (c *client) rent(ctx context.Context, field, query string, in rentPod) (rentedPod, error) {
	var out *rentedPod
	err := c.ask(ctx, "rent by spot, country, line speed or TerminateAfter", field, query, map[string]any{"in": in}, &out)
	if err == nil && out == nil {
		err = odd("%s: the answer has no pod", field)
	}
	if err != nil {
		return rentedPod{}, err
	}
	return *out, identified(nil, out.ID)
}

// spending returns the account's money.
func (c *client) spending(ctx context.Context) (spending, error) {
	var out *spending
	err := c.ask(ctx, "learn the account's balance", "myself", `{myself{clientBalance currentSpendPerHr spendLimit}}`, nil, &out, rest.Safe)
	if err == nil && out == nil {
		err = odd("the answer has no account")
	}
	if err != nil {
		return spending{}, err
	}
	return *out, nil
}

// A lowestPrice is GraphQL's report of one type of GPU. A missing value is nil.
type lowestPrice struct {
	ID           string
	ClusterPrice *float64
	LowestPrice  *struct {
		MinimumBidPrice *float64
		StockStatus     *string
	}
}

const lowestPrices = `query($in:GpuLowestPriceInput){gpuTypes{id clusterPrice lowestPrice(input:$in){minimumBidPrice stockStatus}}}`

type priceQuery struct {
	GPUCount       int    `json:"gpuCount"`
	SecureCloud    bool   `json:"secureCloud"`
	DataCenterID   string `json:"dataCenterId,omitempty"`
	CountryCode    string `json:"countryCode,omitempty"`
	MinCUDAVersion string `json:"minCudaVersion,omitempty"`
	MinMemoryInGB  int    `json:"minMemoryInGb,omitempty"`
	MinVCPUCount   int    `json:"minVcpuCount,omitempty"`
}

// lowestPrices returns the lowest bids, per GPU and hour, by type.
func (c *client) lowestPrices(ctx context.Context, in priceQuery) (map[string]lowestPrice, error) {
	var out []lowestPrice
	if err := c.ask(ctx, "price spot pods and clusters", "gpuTypes", lowestPrices, map[string]any{"in": in}, &out, rest.Safe); err != nil {
		return nil, err
	}
	prices := map[string]lowestPrice{}
	for _, p := range out {
		prices[p.ID] = p
	}
	return prices, nil
}

// countries returns the codes of the countries that have hosts.
func (c *client) countries(ctx context.Context) ([]string, error) {
	var out []string
	err := c.ask(ctx, "choose by country", "countryCodes", `{countryCodes}`, nil, &out, rest.Safe)
	if err == nil && len(out) == 0 {
		err = odd("the answer has no countryCodes")
	}
	return out, err
}

// accountID returns the key's account. If GraphQL refuses the key, such as one for v2 only, or
// has ended, and v2 accepts the key, the key stands for its account. So this key never looks
// for another key's machines, and never takes their absence for their end.
func (c *client) accountID(ctx context.Context, key string) (string, error) {
	var out *struct{ ID string }
	err := c.ask(ctx, "identify the account of the key", "myself", `{myself{id}}`, nil, &out, rest.Safe)
	if err == nil && out != nil && out.ID != "" {
		return out.ID, nil
	}
	if refused := (*rest.Error)(nil); err == nil || errors.As(err, &refused) && refused.Status >= 200 && refused.Status < 500 && refused.Status != http.StatusTooManyRequests {
		_, err = c.pods(ctx)
	}
	hash := sha256.Sum256([]byte(key))
	return fmt.Sprintf("key-%x", hash[:6]), err
}

// ask makes a call whose answer is one field. purpose names the feature that ends with GraphQL.
func (c *client) ask(ctx context.Context, purpose, field, query string, variables map[string]any, out any, opts ...rest.Option) error {
	in := map[string]any{"query": query}
	if variables != nil {
		in["variables"] = variables
	}
	var answer struct{ Data map[string]json.RawMessage }
	err := c.graphQL.Do(ctx, http.MethodPost, "/graphql", in, &answer, opts...)
	if gone := (*rest.Error)(nil); errors.As(err, &gone) && gone.Status == http.StatusGone {
		return &driver.Error{Kind: driver.ErrUnsupported, RequestID: gone.RequestID, Err: err,
			Hint: "RunPod has ended GraphQL, the only way to " + purpose + "; do without, or use a newer gputrain"}
	}
	if err != nil {
		return err
	}
	value, there := answer.Data[field]
	if !there {
		return odd("the answer has no %s", field)
	}
	if err := rest.Unmarshal(ctx, value, out); err != nil {
		return odd("%s: %v", field, err)
	}
	return nil
}

// isClosed reports whether an answer means that GraphQL has ended, or is closed to this key.
// Such a call has made nothing.
func isClosed(err error) bool {
	e := (*rest.Error)(nil)
	return errors.As(err, &e) && slices.Contains([]int{http.StatusGone, http.StatusUnauthorized, http.StatusForbidden}, e.Status)
}

// graphQLFault reads errors that come with status 200. An error inside the service may have had
// an effect; data beside an error counts.
func graphQLFault(status int, body []byte) *rest.Fault {
	var envelope struct {
		Errors []struct {
			Message    string
			Extensions struct{ Code string }
		}
		Data map[string]any
	}
	if json.Unmarshal(body, &envelope) != nil || len(envelope.Errors) == 0 {
		return nil
	}
	first := envelope.Errors[0]
	f := &rest.Fault{Code: first.Extensions.Code, Message: first.Message}
	answered := slices.ContainsFunc(slices.Collect(maps.Values(envelope.Data)), func(v any) bool { return v != nil })
	if status == http.StatusOK && (isOpaque(f) || answered) {
		f.Status = http.StatusInternalServerError
	}
	return f
}
