package jarvislabs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A client calls the account's host, and the hosts of regions for the machines there.
type client struct {
	account *rest.Client
	regions []region
	hosts   map[string]*rest.Client // by the internal names of regions
	slow    time.Duration           // the timeout of a create
}

func newClient(c Config, key string) (*client, error) {
	api := &client{regions: c.regions(), hosts: map[string]*rest.Client{}, slow: max(2*time.Minute, c.RequestTimeout)}
	cfg := rest.Config{HTTPClient: c.HTTPClient, Auth: rest.Bearer(key), Timeout: c.RequestTimeout, FirstWait: cloud.Second, Fault: fault}
	var errs []error
	open := func(address string) *rest.Client {
		cfg.BaseURL = address
		r, err := rest.New(cfg)
		errs = append(errs, err)
		return r
	}
	api.account = open(cmp.Or(c.Endpoint, accountEndpoint))
	for _, r := range api.regions {
		api.hosts[r.internal] = open(r.host)
	}
	return api, errors.Join(errs...)
}

func (c *client) close() {
	c.account.Close()
	for _, h := range c.hosts {
		h.Close()
	}
}

// at returns the host of a region. It refuses a region that no table has.
func (c *client) at(name string) (*rest.Client, region, error) {
	for _, r := range c.regions {
		if r.internal == name {
			return c.hosts[name], r, nil
		}
	}
	return nil, region{}, &driver.Error{Kind: driver.ErrUnsupported, Err: fmt.Errorf("region %q is unknown", name),
		Hint: "add its address to Config.RegionEndpoints"}
}

// An envelope has the fields that any answer may have. The flag is misspelt at times, and a
// text at others.
type envelope struct {
	Success, Sucess word
	Message, Error  word
	Detail          json.RawMessage
}

// reason returns the reason of a failure. detail is a text, or a list of faults with their
// places.
func (e envelope) reason() string {
	if e.Message != "" {
		return string(e.Message)
	}
	if e.Error != "" {
		return string(e.Error)
	}
	var text string
	if json.Unmarshal(e.Detail, &text) == nil {
		return text
	}
	var all []struct {
		Loc []word
		Msg string
	}
	_ = json.Unmarshal(e.Detail, &all) // another form has no reason
	var parts []string
	for _, d := range all {
		var at []string
		for _, l := range d.Loc {
			at = append(at, string(l))
		}
		parts = append(parts, strings.Join(at, ".")+": "+d.Msg)
	}
	return strings.Join(parts, "; ")
}

// refused is the code of a failure under a 200.
const refused = "success is false"

// fault reads a failure of the API, which may come under a 200.
func fault(status int, body []byte) *rest.Fault {
	var e envelope
	if json.Unmarshal(body, &e) != nil {
		return nil
	}
	switch {
	case e.Success.is(false), e.Sucess.is(false):
		return &rest.Fault{Code: refused, Message: e.reason()}
	case status >= 300 && e.reason() != "":
		return &rest.Fault{Message: e.reason()}
	}
	return nil
}

// balance returns the money of the wallet with what Jarvis Labs has granted, in the account's currency.
func (c *client) balance(ctx context.Context) (float64, error) {
	var out struct {
		Balance word `json:"balance"`
		Grants  word `json:"grants"`
	}
	err := c.account.Do(ctx, http.MethodGet, "/users/balance", nil, &out)
	money, told := out.Balance.number()
	if err == nil && !told {
		return 0, odd("GET /users/balance: the answer has no balance")
	}
	grants, _ := out.Grants.number()
	return money + grants, err
}

// groups returns the groups of servers, with the currency of their prices: "USD".
func (c *client) groups(ctx context.Context) ([]group, string, error) {
	var out struct {
		Groups   *[]group `json:"server_meta"`
		Currency word     `json:"currency"`
	}
	err := c.account.Do(ctx, http.MethodGet, "/misc/server_meta", nil, &out)
	all, err := list(ctx, out.Groups, "GET /misc/server_meta", err, func(g group) bool { return g.GPU != "" && g.Region != "" })
	return all, strings.ToUpper(cmp.Or(string(out.Currency), "USD")), err
}

func (c *client) templates(ctx context.Context) ([]string, error) {
	type framework struct {
		ID string `json:"id"`
	}
	var out struct {
		Frameworks *[]framework `json:"frameworks"`
	}
	err := c.account.Do(ctx, http.MethodGet, "/misc/frameworks", nil, &out)
	all, err := list(ctx, out.Frameworks, "GET /misc/frameworks", err, func(f framework) bool { return f.ID != "" })
	var names []string
	for _, f := range all {
		names = append(names, f.ID)
	}
	return names, err
}

func (c *client) keys(ctx context.Context) (keys []cloud.Key, err error) {
	var out *[]sshKey
	err = c.account.Do(ctx, http.MethodGet, "/ssh/", nil, &out)
	all, err := list(ctx, out, "GET /ssh/", err, func(k sshKey) bool { return k.ID != "" })
	for _, k := range all {
		keys = append(keys, cloud.Key{ID: string(k.ID), Name: k.Name, Line: k.Key})
	}
	return keys, err
}

func (c *client) addKey(ctx context.Context, name, line string) error {
	return c.account.Do(ctx, http.MethodPost, "/ssh/", map[string]string{"ssh_key": line, "key_name": name}, nil)
}

func (c *client) deleteKey(ctx context.Context, id string) error {
	return c.account.Do(ctx, http.MethodDelete, "/ssh/"+url.PathEscape(id), nil, nil)
}

// create returns the ID of a machine. A 200 without one is a failure, with the answer's reason.
func (c *client) create(ctx context.Context, template string, in createInstance) (string, error) {
	host, _, err := c.at(in.Region)
	if err != nil {
		return "", err
	}
	var out struct {
		envelope
		MachineID word `json:"machine_id"`
	}
	path := "/templates/" + url.PathEscape(template) + "/create"
	if err := host.Do(ctx, http.MethodPost, path, in, &out, rest.Timeout(c.slow)); err != nil {
		return "", err
	}
	if id := out.MachineID.id(); id != "" {
		return id, nil
	}
	if why := out.reason(); why != "" {
		return "", &rest.Error{Method: http.MethodPost, Path: path, Status: http.StatusOK, Code: refused, Message: host.Redact(why)}
	}
	return "", odd("POST %s: the answer has neither a machine nor a reason", path)
}

// failure returns the reason why a machine did not come up, or "".
func (c *client) failure(ctx context.Context, in instance) (string, error) {
	host, _, err := c.at(string(in.Region))
	if err != nil {
		return "", err
	}
	var out struct{ Status, Error, Code word }
	err = host.Do(ctx, http.MethodGet, "/misc/status", nil, &out, rest.Query(machineID(in)))
	return strings.TrimSpace(string(out.Error + " " + out.Code)), err
}

func (c *client) instance(ctx context.Context, id string) (instance, error) {
	var out struct {
		Instance instance `json:"instance"`
	}
	err := c.account.Do(ctx, http.MethodGet, "/users/fetch/"+url.PathEscape(id), nil, &out)
	if got := out.Instance.MachineID; err == nil && got != "" && got.id() != id {
		return instance{}, odd("GET /users/fetch/%s: the answer is machine %s", id, got)
	}
	return out.Instance, err
}

// instances returns the machines of all regions.
func (c *client) instances(ctx context.Context) ([]instance, error) {
	var out struct {
		Instances *[]instance `json:"instances"`
	}
	err := c.account.Do(ctx, http.MethodGet, "/users/fetch", nil, &out)
	return list(ctx, out.Instances, "GET /users/fetch", err, func(i instance) bool { return i.MachineID.id() != "" })
}

// destroy has a path for each kind of machine. It may be repeated: a destroyed machine has an
// error of its own.
func (c *client) destroy(ctx context.Context, in instance) error {
	host, _, err := c.at(string(in.Region))
	if err != nil {
		return err
	}
	path := "/misc/destroy"
	switch {
	case in.isVM() && strings.EqualFold(string(in.GPU), "cpu"):
		path = "/templates/vm/cpu/destroy"
	case in.isVM():
		path = "/templates/vm/destroy"
	}
	return host.Do(ctx, http.MethodPost, path, nil, nil, rest.Query(machineID(in)), rest.Idempotent)
}

func machineID(in instance) url.Values { return url.Values{"machine_id": {in.MachineID.id()}} }

// list returns a list, or an error if it is missing or an item is incomplete.
func list[T any](ctx context.Context, items *[]T, call string, err error, complete func(T) bool) ([]T, error) {
	if err != nil {
		return nil, err
	}
	if items == nil {
		return nil, odd("%s: the answer has no list", call)
	}
	whole := make([]T, 0, len(*items))
	for _, item := range *items {
		if complete(item) {
			whole = append(whole, item)
		} else if err := odd("%s: an item has no name or no ID", call); !rest.LeftOut(ctx, err) {
			return nil, err
		}
	}
	return whole, nil
}

func odd(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{rest.ErrAnswer}, args...)...)
}
