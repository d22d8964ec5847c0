package tensordock

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A client has one method for each endpoint that is used.
type client struct{ *rest.Client }

// newClient returns a client of the API, which bears 100 calls a minute.
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
	return &client{api}, err
}

// authTest checks the token, and returns whose it is.
func (c *client) authTest(ctx context.Context) (organization string, err error) {
	var out struct {
		Success      *bool  `json:"success"`
		Organization string `json:"organizationId"`
	}
	const path = "/auth/test"
	if err := c.Do(ctx, http.MethodPost, path, nil, &out, rest.Safe); err != nil {
		return "", err
	}
	switch {
	case out.Success == nil:
		return "", odd(http.MethodPost, path, "it does not say whether the token is good")
	case !*out.Success:
		return "", &gputrain.Error{Kind: gputrain.ErrAuth, Err: fmt.Errorf("POST %s: success is false", path), Hint: whereTokens}
	}
	return out.Organization, nil
}

func (c *client) locations(ctx context.Context) ([]location, error) {
	var out struct {
		Data struct {
			Locations []location `json:"locations"`
		} `json:"data"`
	}
	if err := c.Do(ctx, http.MethodGet, "/locations", nil, &out); err != nil {
		return nil, err
	}
	for _, l := range out.Data.Locations {
		if l.ID == "" {
			return nil, odd(http.MethodGet, "/locations", "one has no id")
		}
	}
	if out.Data.Locations == nil {
		return nil, odd(http.MethodGet, "/locations", "it has no locations")
	}
	return out.Data.Locations, nil
}

func (c *client) hosts(ctx context.Context) ([]host, error) {
	var out struct {
		Data struct {
			Hosts []host `json:"hostnodes"`
		} `json:"data"`
	}
	if err := c.Do(ctx, http.MethodGet, "/hostnodes", nil, &out); err != nil {
		return nil, err
	}
	if out.Data.Hosts == nil {
		return nil, odd(http.MethodGet, "/hostnodes", "it has no hostnodes")
	}
	return out.Data.Hosts, nil
}

// create rents a machine.
func (c *client) create(ctx context.Context, o order) (id string, err error) {
	in := map[string]any{"data": map[string]any{"type": o.Type, "attributes": o}}
	var out machine
	if err := c.Do(ctx, http.MethodPost, "/instances", in, &out); err != nil {
		return "", err
	}
	if out.ID == "" {
		return "", odd(http.MethodPost, "/instances", "it names no instance")
	}
	return out.ID, nil
}

// instances are all that the account has.
func (c *client) instances(ctx context.Context) ([]machine, error) {
	var out struct {
		Data machines `json:"data"`
	}
	if err := c.Do(ctx, http.MethodGet, "/instances", nil, &out); err != nil {
		return nil, err
	}
	if out.Data == nil {
		return nil, odd(http.MethodGet, "/instances", "it has no list")
	}
	for _, m := range out.Data {
		if m.ID == "" {
			return nil, odd(http.MethodGet, "/instances", "one has no id")
		}
	}
	return out.Data, nil
}

func (c *client) instance(ctx context.Context, id string) (m machine, err error) {
	path := "/instances/" + url.PathEscape(id)
	if err := c.Do(ctx, http.MethodGet, path, nil, &m); err != nil {
		return machine{}, err
	}
	if m.ID != id {
		return machine{}, odd(http.MethodGet, path, fmt.Sprintf("it tells of instance %q", m.ID))
	}
	return m, nil
}

func (c *client) deleteInstance(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/instances/"+url.PathEscape(id), nil, nil)
}

// odd is an answer that is not understood.
func odd(method, path, why string) error {
	return &rest.Error{Method: method, Path: path, Err: fmt.Errorf("%w: %s", rest.ErrAnswer, why)}
}
