package tensordock

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A client has one method for each endpoint that the driver uses.
type client struct {
	*rest.Client
	market *marketplace // nil without Config.APIKey
}

// newClient returns a client of the API, which allows 100 calls a minute.
func newClient(c Config, token string) (*client, error) {
	api, err := rest.New(rest.Config{
		BaseURL:    cmp.Or(c.Endpoint, defaultEndpoint),
		HTTPClient: c.HTTPClient,
		Auth:       rest.Bearer(token),
		Fault:      fault,
		Timeout:    c.RequestTimeout,
		FirstWait:  cloud.Second,
		Limit:      cloud.Limiter(100, 60*cloud.Second, c.Endpoint, token),
	})
	return &client{Client: api}, err
}

// authTest checks the token and returns its organization, if the API reports it.
func (c *client) authTest(ctx context.Context) (organization string, err error) {
	var out struct {
		Success      *bool  `json:"success"`
		Organization string `json:"organizationId"`
	}
	const path = "/auth/test"
	err = c.Do(ctx, http.MethodPost, path, nil, &out, rest.Safe)
	if e, refused := cloud.Answered(err); refused && e.Status < 400 { // by the API itself
		return "", &driver.Error{Kind: driver.ErrAuth, Err: err, Hint: whereTokens}
	}
	switch {
	case err != nil:
		return "", err
	case out.Success == nil:
		return "", odd(http.MethodPost, path, "the answer does not confirm the token")
	case !*out.Success:
		return "", &driver.Error{Kind: driver.ErrAuth, Err: fmt.Errorf("POST %s: success is false", path), Hint: whereTokens}
	}
	return out.Organization, nil
}

func (c *client) locations(ctx context.Context) (all []location, err error) {
	err = c.list(ctx, "/locations", "locations", &all)
	for _, l := range all {
		if l.ID == "" {
			return nil, odd(http.MethodGet, "/locations", "one has no id")
		}
	}
	return all, err
}

func (c *client) hosts(ctx context.Context) (all []host, err error) {
	err = c.list(ctx, "/hostnodes", "hostnodes", &all)
	return all, err
}

// create rents a machine.
func (c *client) create(ctx context.Context, o order) (id string, err error) {
	in := map[string]any{"data": map[string]any{"type": o.Type, "attributes": o}}
	var out machine
	if err := c.Do(ctx, http.MethodPost, "/instances", in, &out); err != nil {
		return "", err
	}
	if out.ID == "" {
		return "", odd(http.MethodPost, "/instances", "the answer names no instance")
	}
	return out.ID, nil
}

// instances returns all instances of the account.
func (c *client) instances(ctx context.Context) (all []machine, err error) {
	err = c.list(ctx, "/instances", "instances", &all)
	for _, m := range all {
		if m.ID == "" {
			return nil, odd(http.MethodGet, "/instances", "one has no id")
		}
	}
	return all, err
}

// list reads the list of that name, in any of the API's shapes. An answer without the list is
// an error, not an empty list.
func (c *client) list(ctx context.Context, path, name string, out any) error {
	var body json.RawMessage
	if err := c.Do(ctx, http.MethodGet, path, nil, &body); err != nil {
		return err
	}
	list := listIn(body, name)
	if list == nil {
		return odd(http.MethodGet, path, "the answer has no "+name)
	}
	if err := rest.Unmarshal(ctx, list, out); err != nil {
		return odd(http.MethodGet, path, err.Error())
	}
	return nil
}

func (c *client) instance(ctx context.Context, id string) (m machine, err error) {
	path := "/instances/" + url.PathEscape(id)
	if err := c.Do(ctx, http.MethodGet, path, nil, &m); err != nil {
		return machine{}, err
	}
	if m.ID != id {
		return machine{}, odd(http.MethodGet, path, fmt.Sprintf("the answer is instance %q", m.ID))
	}
	return m, nil
}

func (c *client) deleteInstance(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/instances/"+url.PathEscape(id), nil, nil)
}

// odd returns the error of an unexpected answer.
func odd(method, path, why string) error {
	return &rest.Error{Method: method, Path: path, Err: fmt.Errorf("%w: %s", rest.ErrAnswer, why)}
}
