package vultr

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A client calls the API, one method per endpoint. It makes no decisions.
type client struct{ rest *rest.Client }

// perPage is the maximum of items on a page.
const perPage = "500"

// A product holds the API's names for a Mode.
type product struct {
	path             string   // of its machines
	items            []string // names of one machine in an answer
	list             string
	plans            string
	planList         string
	provisionTimeout time.Duration
}

var products = map[Mode]product{
	Cloud: {path: "/instances", items: []string{"instance"}, list: "instances", plans: "/plans", planList: "plans", provisionTimeout: 15 * time.Minute},
	// The service has not always used its description's name.
	BareMetal: {path: "/bare-metals", items: []string{"bare_metal", "baremetal"}, list: "bare_metals", plans: "/plans-metal", planList: "plans_metal", provisionTimeout: time.Hour},
}

func newClient(cfg Config, key string) (*client, error) {
	api, err := rest.New(rest.Config{
		BaseURL:      cfg.Endpoint,
		HTTPClient:   cfg.HTTPClient,
		Auth:         rest.Bearer(key),
		Fault:        fault,
		SecretFields: []string{"default_password", "user_data"},
		Limit:        cloud.Limiter(20, cloud.Second, cfg.Endpoint), // 30 from one address are refused
		Timeout:      cfg.RequestTimeout,
		FirstWait:    cloud.Second,
	})
	if err != nil {
		return nil, err
	}
	return &client{api}, nil
}

func (c *client) close() { c.rest.Close() }

func odd(method, path, what string, args ...any) error {
	return fmt.Errorf("%s %s: %w: "+what, append([]any{method, path, rest.ErrAnswer}, args...)...)
}

// account returns the account.
func (c *client) account(ctx context.Context) (string, error) {
	var out struct {
		Account struct{ Name, Email string } `json:"account"`
	}
	if err := c.rest.Do(ctx, "GET", "/account", nil, &out); err != nil {
		return "", err
	}
	if out.Account.Email != "" {
		return out.Account.Email, nil
	}
	return out.Account.Name, nil
}

// credit returns the account's prepaid money without what it owes. The API's balance is what it owes.
func (c *client) credit(ctx context.Context) (float64, error) {
	var out struct {
		Account struct {
			Balance *float64 `json:"balance"`
			Pending float64  `json:"pending_charges"`
		} `json:"account"`
	}
	if err := c.rest.Do(ctx, "GET", "/account", nil, &out); err != nil {
		return 0, err
	}
	if out.Account.Balance == nil {
		return 0, odd("GET", "/account", "the answer has no balance")
	}
	return -*out.Account.Balance - out.Account.Pending, nil
}

// regions yields all regions.
func (c *client) regions(ctx context.Context) iter.Seq2[region, error] {
	return pages(ctx, c, "/regions", "regions", url.Values{}, func(r region) bool { return r.ID != "" })
}

// plans yields the plans of a mode.
func (c *client) plans(ctx context.Context, mode Mode) iter.Seq2[plan, error] {
	p := products[mode]
	query := url.Values{}
	if mode == Cloud {
		query.Set("type", "all")
	}
	return pages(ctx, c, p.plans, p.planList, query, func(p plan) bool { return p.ID != "" })
}

// available returns the IDs of the plans that a region has in stock, of both modes.
func (c *client) available(ctx context.Context, region string) ([]string, error) {
	path := "/regions/" + url.PathEscape(region) + "/availability"
	var out struct {
		Plans *[]string `json:"available_plans"`
	}
	if err := c.rest.Do(ctx, "GET", path, nil, &out); err != nil {
		return nil, err
	}
	if out.Plans == nil {
		return nil, odd("GET", path, "the answer has no available_plans")
	}
	return *out.Plans, nil
}

// machines yields all machines of a mode. The filters of these lists do not exist for both
// modes, or are deprecated.
func (c *client) machines(ctx context.Context, mode Mode) iter.Seq2[machine, error] {
	p := products[mode]
	return pages(ctx, c, p.path, p.list, url.Values{}, func(m machine) bool { return m.ID != "" })
}

func (c *client) machine(ctx context.Context, mode Mode, id string) (machine, error) {
	path := machinePath(mode, id)
	m, err := c.one(ctx, "GET", path, mode, nil)
	if err == nil && m.ID != id {
		return machine{}, odd("GET", path, "the answer is about %q", m.ID)
	}
	return m, err
}

// create rents a machine. It is not repeated if it may have taken effect.
func (c *client) create(ctx context.Context, mode Mode, in createRequest) (machine, error) {
	c.rest.Hide(in.UserData) // an answer might show it
	return c.one(ctx, "POST", products[mode].path, mode, in)
}

// retag replaces all tags of a machine.
func (c *client) retag(ctx context.Context, mode Mode, id string, tags []string) error {
	_, err := c.one(ctx, "PATCH", machinePath(mode, id), mode, map[string][]string{"tags": tags}, rest.Idempotent)
	return err
}

func (c *client) destroy(ctx context.Context, mode Mode, id string) error {
	return c.rest.Do(ctx, "DELETE", machinePath(mode, id), nil, nil)
}

func machinePath(mode Mode, id string) string { return products[mode].path + "/" + url.PathEscape(id) }

// one makes a call whose answer is one machine.
func (c *client) one(ctx context.Context, method, path string, mode Mode, in any, opts ...rest.Option) (machine, error) {
	var out map[string]json.RawMessage
	if err := c.rest.Do(ctx, method, path, in, &out, opts...); err != nil {
		return machine{}, err
	}
	for _, name := range products[mode].items {
		if out[name] == nil {
			continue
		}
		var m machine
		if err := json.Unmarshal(out[name], &m); err != nil {
			return machine{}, odd(method, path, "%v", err)
		}
		if m.ID == "" {
			return machine{}, odd(method, path, "the %s has no id", name)
		}
		return m, nil
	}
	return machine{}, odd(method, path, "the answer has no %s", products[mode].items[0])
}

// pages yields the items of a list, from all of its pages. A possibly incomplete list is an
// error.
func pages[T any](ctx context.Context, c *client, path, list string, query url.Values, complete func(T) bool) iter.Seq2[T, error] {
	return rest.Pages(func(cursor string) ([]T, string, error) {
		query.Set("per_page", perPage)
		query.Del("cursor")
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		var out map[string]json.RawMessage
		if err := c.rest.Do(ctx, "GET", path, nil, &out, rest.Query(query)); err != nil {
			return nil, "", err
		}
		var items *[]T
		var meta *struct {
			Links struct{ Next string } `json:"links"`
		}
		for name, v := range map[string]any{list: &items, "meta": &meta} {
			if err := rest.Unmarshal(ctx, out[name], v); err != nil {
				return nil, "", odd("GET", path, "%s: %v", name, err)
			}
		}
		if items == nil || meta == nil {
			return nil, "", odd("GET", path, "the answer has no %s, or no meta", list)
		}
		var whole []T
		for _, item := range *items {
			if complete(item) {
				whole = append(whole, item)
			} else if err := odd("GET", path, "one of the %s has no id", list); len(*items) == 1 || !rest.LeftOut(ctx, err) {
				return nil, "", err
			}
		}
		return whole, meta.Links.Next, nil
	})
}
