package hyperstack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

type client struct{ rest *rest.Client }

func newClient(c Config, key string) (*client, error) {
	r, err := rest.New(rest.Config{
		BaseURL: c.Endpoint, HTTPClient: c.HTTPClient, Auth: rest.HeaderKey("api_key", key), Timeout: c.RequestTimeout,
		FirstWait: cloud.Second, Fault: fault,
		// An address may make about 500 calls a minute.
		Limit: cloud.Limiter(1, cloud.Second*12/100, c.Endpoint),
	})
	return &client{r}, err
}

func (c *client) close() { c.rest.Close() }

// fault reads a failure of the API, which may come under a 200.
func fault(status int, body []byte) *rest.Fault {
	var f struct {
		Status  *bool  `json:"status"`
		Message string `json:"message"`
		Reason  string `json:"error_reason"`
	}
	if json.Unmarshal(body, &f) != nil || status < 300 && (f.Status == nil || *f.Status) || f.Message+f.Reason == "" && status >= 300 {
		return nil
	}
	return &rest.Fault{Code: f.Reason, Message: f.Message}
}

func (c *client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.rest.Do(ctx, http.MethodGet, path, nil, out, rest.Query(query))
}

func (c *client) me(ctx context.Context) (user, error) {
	var out struct {
		User *user `json:"user"`
	}
	err := c.get(ctx, "/auth/me", nil, &out)
	if err == nil && out.User == nil {
		return user{}, odd("GET /auth/me: the answer names no user")
	}
	if err != nil {
		return user{}, err
	}
	return *out.User, nil
}

func (c *client) credit(ctx context.Context) (credit, error) {
	var out struct {
		Data credit `json:"data"`
	}
	err := c.get(ctx, "/billing/user-credit/credit", nil, &out)
	return out.Data, err
}

// flavors returns the flavours of a region, or of all if it is empty.
func (c *client) flavors(ctx context.Context, region string) ([]flavor, error) {
	query := url.Values{}
	if region != "" {
		query.Set("region", region)
	}
	var out struct {
		Data *[]struct {
			GPU     string   `json:"gpu"`
			Region  string   `json:"region_name"`
			Flavors []flavor `json:"flavors"`
		} `json:"data"`
	}
	if err := c.get(ctx, "/core/flavors", query, &out); err != nil {
		return nil, err
	}
	if out.Data == nil {
		return nil, odd("GET /core/flavors: the answer has no list")
	}
	var all []flavor
	for _, group := range *out.Data {
		for _, f := range group.Flavors {
			if f.Name != "" {
				all = append(all, f)
			} else if err := odd("GET /core/flavors: a flavour has no name"); !rest.LeftOut(ctx, err) {
				return nil, err
			}
		}
	}
	return all, nil
}

func (c *client) stocks(ctx context.Context) ([]stock, error) {
	var out struct {
		Stocks *[]stock `json:"stocks"`
	}
	if err := c.get(ctx, "/core/stocks", nil, &out); err != nil {
		return nil, err
	}
	if out.Stocks == nil {
		return nil, odd("GET /core/stocks: the answer has no list")
	}
	return *out.Stocks, nil
}

// prices returns the prices per GPU and hour.
func (c *client) prices(ctx context.Context) ([]price, error) {
	var out *[]price
	if err := c.get(ctx, "/pricebook", nil, &out); err != nil {
		return nil, err
	}
	if out == nil {
		return nil, odd("GET /pricebook: the answer is not a list")
	}
	return *out, nil
}

func (c *client) images(ctx context.Context, region string) ([]image, error) {
	return c.imagesBy(ctx, url.Values{"region": {region}, "include_public": {"true"}})
}

func (c *client) imagesBy(ctx context.Context, query url.Values) ([]image, error) {
	return pages(func(i image) int { return i.ID }, func(page int) ([]image, int, error) {
		query.Set("page", strconv.Itoa(page))
		query.Set("per_page", strconv.Itoa(pageSize))
		var out struct {
			Images *[]struct {
				Images []image `json:"images"`
			} `json:"images"`
		}
		if err := c.get(ctx, "/core/images", query, &out); err != nil {
			return nil, 0, err
		}
		if out.Images == nil {
			return nil, 0, odd("GET /core/images: the answer has no list")
		}
		var all []image
		for _, group := range *out.Images {
			all = append(all, group.Images...)
		}
		return all, 0, nil
	})
}

// environments returns the environments whose name contains a text.
func (c *client) environments(ctx context.Context, search string) ([]environment, error) {
	return pages(func(e environment) int { return e.ID }, func(page int) ([]environment, int, error) {
		var out struct {
			Environments *[]environment `json:"environments"`
			Count        int            `json:"count"`
		}
		err := c.get(ctx, "/core/environments", pageQuery(page, search), &out)
		return listed(out.Environments, out.Count, "environments", err)
	})
}

func (c *client) createEnvironment(ctx context.Context, name, region string) error {
	return c.rest.Do(ctx, http.MethodPost, "/core/environments", map[string]string{"name": name, "region": region}, nil)
}

// subnet returns the network of an environment's machines, or "" if it is unknown.
func (c *client) subnet(ctx context.Context, environment int) (string, error) {
	var out struct {
		CIDR string `json:"cidr"`
	}
	err := c.get(ctx, "/core/environments/"+strconv.Itoa(environment)+"/vm-quota", nil, &out)
	return out.CIDR, err
}

func (c *client) deleteEnvironment(ctx context.Context, id int) error {
	return c.rest.Do(ctx, http.MethodDelete, "/core/environments/"+strconv.Itoa(id), nil, nil)
}

func (c *client) keypairs(ctx context.Context) ([]keypair, error) {
	return pages(func(k keypair) int { return k.ID }, func(page int) ([]keypair, int, error) {
		var out struct {
			Keypairs *[]keypair `json:"keypairs"`
			Count    int        `json:"count"`
		}
		err := c.get(ctx, "/core/keypairs", pageQuery(page, ""), &out)
		return listed(out.Keypairs, out.Count, "keypairs", err)
	})
}

func (c *client) addKeypair(ctx context.Context, environment, name, line string) error {
	in := map[string]string{"environment_name": environment, "name": name, "public_key": line}
	return c.rest.Do(ctx, http.MethodPost, "/core/keypairs", in, nil)
}

// deleteKeypair uses a path with the singular, unlike the others.
func (c *client) deleteKeypair(ctx context.Context, id string) error {
	return c.rest.Do(ctx, http.MethodDelete, "/core/keypair/"+url.PathEscape(id), nil, nil)
}

func (c *client) createMachine(ctx context.Context, in createMachine) (machine, error) {
	var out struct {
		Instances []machine `json:"instances"`
	}
	if err := c.rest.Do(ctx, http.MethodPost, "/core/virtual-machines", in, &out); err != nil {
		return machine{}, err
	}
	if len(out.Instances) != 1 || out.Instances[0].ID == 0 {
		return machine{}, odd("POST /core/virtual-machines: the answer does not name one machine")
	}
	return out.Instances[0], nil
}

func (c *client) machine(ctx context.Context, id string) (machine, error) {
	if err := checkID(id); err != nil {
		return machine{}, err
	}
	var out struct {
		Instance machine `json:"instance"`
	}
	err := c.get(ctx, machinePath(id), nil, &out)
	if err == nil && strconv.Itoa(out.Instance.ID) != id {
		return machine{}, odd("GET %s: the answer is machine %d", machinePath(id), out.Instance.ID)
	}
	return out.Instance, err
}

func (c *client) machines(ctx context.Context) ([]machine, error) {
	return pages(func(m machine) int { return m.ID }, func(page int) ([]machine, int, error) {
		var out struct {
			Instances *[]machine `json:"instances"`
			Count     int        `json:"count"`
		}
		err := c.get(ctx, "/core/virtual-machines", pageQuery(page, ""), &out)
		return listed(out.Instances, out.Count, "virtual-machines", err)
	})
}

func (c *client) events(ctx context.Context, id string) ([]event, error) {
	var out struct {
		Events []event `json:"instance_events"`
	}
	err := c.get(ctx, machinePath(id)+"/events", nil, &out)
	return out.Events, err
}

func (c *client) label(ctx context.Context, id string, labels []string) error {
	return c.rest.Do(ctx, http.MethodPut, machinePath(id)+"/label", map[string][]string{"labels": labels}, nil, rest.Idempotent)
}

func (c *client) deleteMachine(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return c.rest.Do(ctx, http.MethodDelete, machinePath(id), nil, nil)
}

func machinePath(id string) string { return "/core/virtual-machines/" + url.PathEscape(id) }

// checkID refuses an impossible ID of a machine, for which the API has other words than for a
// machine that is gone.
func checkID(id string) error {
	if _, err := strconv.ParseUint(id, 10, 63); err != nil {
		return &driver.Error{Kind: driver.ErrNotFound, Err: fmt.Errorf("%q is not a machine ID", id)}
	}
	return nil
}

func odd(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{rest.ErrAnswer}, args...)...)
}
