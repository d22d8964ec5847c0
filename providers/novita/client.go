package novita

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A client makes the calls of Novita's API for GPU instances, and of its API for billing.
type client struct {
	rest    *rest.Client
	billing *rest.Client // nil if its address is unknown
}

const instancesPath, billingPath = "/gpu-instance/openapi/v1", "/openapi/v1"

func newClient(c Config, key string) (*client, error) {
	cfg := rest.Config{
		BaseURL: cmp.Or(c.Endpoint, defaultEndpoint), HTTPClient: c.HTTPClient, Timeout: c.RequestTimeout,
		Auth: rest.Bearer(key), Fault: fault, FirstWait: cloud.Second, SecretFields: []string{"password", "sshPassword"},
		Limit: cloud.Limiter(2, cloud.Second, c.Endpoint, key), // a guess: the rate is not published
	}
	instances, err := rest.New(cfg)
	if err != nil {
		return nil, err
	}
	all := &client{rest: instances}
	if root, beside := strings.CutSuffix(strings.TrimRight(cfg.BaseURL, "/"), instancesPath); beside {
		cfg.BaseURL = root + billingPath
		if all.billing, err = rest.New(cfg); err != nil {
			all.close()
			return nil, err
		}
	}
	return all, nil
}

func (c *client) close() {
	c.rest.Close()
	if c.billing != nil {
		c.billing.Close()
	}
}

// balance returns the money that the account can spend, in US dollars.
func (c *client) balance(ctx context.Context) (float64, error) {
	var out struct {
		Available *number `json:"availableBalance"` // in 1/10,000 USD
	}
	if err := c.billing.Do(ctx, "GET", "/billing/balance/detail", nil, &out); err != nil {
		return 0, err
	}
	if out.Available == nil {
		return 0, fmt.Errorf("%w: the answer has no availableBalance", rest.ErrAnswer)
	}
	return float64(*out.Available) / 10_000, nil
}

// check makes a call that needs a valid key.
func (c *client) check(ctx context.Context) error {
	_, _, err := c.page(ctx, 0, 1)
	return err
}

func (c *client) clusters(ctx context.Context) ([]cluster, error) {
	var out struct {
		Data *[]cluster `json:"data"`
	}
	if err := c.rest.Do(ctx, "GET", "/clusters", nil, &out); err != nil {
		return nil, err
	}
	if out.Data == nil {
		return nil, fmt.Errorf("%w: the answer has no data", rest.ErrAnswer)
	}
	return *out.Data, nil
}

// products returns the products that have machines with that many GPUs, in a cluster or in any.
func (c *client) products(ctx context.Context, cluster string, gpus, diskGB int) ([]product, error) {
	var out struct {
		Data *[]product `json:"data"`
	}
	q := url.Values{"gpuNum": {strconv.Itoa(gpus)}, "minRootFSSize": {strconv.Itoa(diskGB)}}
	if cluster != "" {
		q.Set("clusterId", cluster)
	}
	if err := c.rest.Do(ctx, "GET", "/products", nil, &out, rest.Query(q)); err != nil {
		return nil, err
	}
	if out.Data == nil {
		return nil, fmt.Errorf("%w: the answer has no data", rest.ErrAnswer)
	}
	return *out.Data, nil
}

// create makes an instance. It must not be repeated: the API has no token.
func (c *client) create(ctx context.Context, in create) (id string, err error) {
	var out struct {
		ID         string `json:"id"` // or "Id"
		InstanceID string `json:"instanceId"`
	}
	if err := c.rest.Do(ctx, "POST", "/gpu/instance/create", in, &out); err != nil {
		return "", err
	}
	if id = cmp.Or(out.ID, out.InstanceID); id == "" {
		return "", fmt.Errorf("%w: the answer names no instance", rest.ErrAnswer)
	}
	return id, nil
}

func (c *client) instance(ctx context.Context, id string) (instance, error) {
	var out detail
	if err := c.rest.Do(ctx, "GET", "/gpu/instance", nil, &out, rest.Query(url.Values{"instanceId": {id}})); err != nil {
		return instance{}, err
	}
	if out.ID != id {
		return instance{}, fmt.Errorf("%w: the answer for instance %s is about %q", rest.ErrAnswer, id, out.ID)
	}
	return out.instance, nil
}

// page reads one page of the list. total is negative if the answer does not have it.
func (c *client) page(ctx context.Context, n, size int) (rows []instance, total int, err error) {
	var out struct {
		Instances *[]instance `json:"instances"`
		Total     *int        `json:"total"`
	}
	q := url.Values{"pageNum": {strconv.Itoa(n)}, "pageSize": {strconv.Itoa(size)}}
	if err := c.rest.Do(ctx, "GET", "/gpu/instances", nil, &out, rest.Query(q)); err != nil {
		return nil, 0, err
	}
	if out.Instances == nil {
		return nil, 0, fmt.Errorf("%w: the answer has no instances", rest.ErrAnswer)
	}
	for _, in := range *out.Instances {
		if in.ID == "" {
			return nil, 0, fmt.Errorf("%w: an instance of the list has no ID", rest.ErrAnswer)
		}
	}
	if out.Total == nil {
		return *out.Instances, -1, nil
	}
	return *out.Instances, *out.Total, nil
}

const pageSize = 100

// instances returns the complete list. A list that changes while its pages are read may seem
// incomplete, so it is read again.
func (c *client) instances(ctx context.Context) (all []instance, err error) {
	for range 3 {
		if all, err = c.allPages(ctx); !errors.Is(err, errShort) {
			break
		}
	}
	return all, err
}

var errShort = fmt.Errorf("%w: the list ends too early", rest.ErrAnswer)

// allPages reads the list once. It is not documented whether its first page is 0 or 1: page 0
// may be the first, the same as page 1, or empty.
func (c *client) allPages(ctx context.Context) (all []instance, err error) {
	seen := map[string]bool{}
	for n := 0; ; n++ {
		rows, total, err := c.page(ctx, n, pageSize)
		if err != nil {
			return nil, err
		}
		fresh := 0
		for _, in := range rows {
			if !seen[in.ID] {
				seen[in.ID] = true
				all = append(all, in)
				fresh++
			}
		}
		switch {
		case total > 0 && len(all) >= total:
			return all, nil
		case fresh > 0, n == 0, n == 1 && len(rows) > 0: // pages may be shorter than requested
			continue
		case len(all) < total:
			return nil, fmt.Errorf("%w, after %d of %d instances", errShort, len(all), total)
		}
		return all, nil
	}
}

// end deletes an instance in any state.
func (c *client) end(ctx context.Context, id string) error {
	return c.rest.Do(ctx, "POST", "/gpu/instance/delete", map[string]string{"instanceId": id}, nil, rest.Idempotent)
}
