package massedcompute

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A client calls the VM API, version 1.
type client struct{ rest *rest.Client }

// newClient returns a client of the API. Its limits are not published: other clients keep to
// about a call a second.
func newClient(c Config, key string) (*client, error) {
	r, err := rest.New(rest.Config{
		BaseURL: c.Endpoint + "/api/v1", HTTPClient: c.HTTPClient, Auth: rest.Bearer(key), Timeout: cmp.Or(c.RequestTimeout, 30*time.Second),
		Fault: fault, SecretFields: []string{"password"},
		Limit: cloud.Limiter(2, 2*cloud.Second, c.Endpoint, key), FirstWait: cloud.Second,
	})
	return &client{r}, err
}

func (c *client) close() { c.rest.Close() }

// fault reads a failure: {"message": text}, {"error": text} or {"error": {"message": text}}.
// The API's description has none of them.
func fault(status int, body []byte) *rest.Fault {
	var said struct {
		Message string
		Error   json.RawMessage
	}
	if json.Unmarshal(body, &said) != nil {
		return nil
	}
	var text string
	var inner struct{ Message string }
	if json.Unmarshal(said.Error, &text) != nil && json.Unmarshal(said.Error, &inner) == nil {
		text = inner.Message
	}
	if status < 400 && text == "" || text+said.Message == "" {
		return nil
	}
	return &rest.Fault{Message: cmp.Or(said.Message, text)}
}

func odd(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{rest.ErrAnswer}, args...)...)
}

// validate checks the key.
func (c *client) validate(ctx context.Context) error {
	var out struct{ Message string }
	return c.rest.Do(ctx, "POST", "/account/token/validation", struct{}{}, &out, rest.Safe)
}

// inventory returns the products by name.
func (c *client) inventory(ctx context.Context) (map[string]item, error) {
	var out struct {
		Inventory *map[string]item `json:"gpu_inventory"`
	}
	if err := c.rest.Do(ctx, "GET", "/gpu-inventory", nil, &out); err != nil {
		return nil, err
	}
	if out.Inventory == nil {
		return nil, odd("GET /gpu-inventory: the answer has no inventory")
	}
	return *out.Inventory, nil
}

// keys returns the account's SSH keys.
func (c *client) keys(ctx context.Context) ([]cloud.Key, error) {
	var out struct {
		Keys *[]sshKey `json:"sshKeys"`
	}
	if err := c.rest.Do(ctx, "GET", "/ssh-keys", nil, &out); err != nil {
		return nil, err
	}
	if out.Keys == nil {
		return nil, odd("GET /ssh-keys: the answer has no list")
	}
	var keys []cloud.Key
	for _, k := range *out.Keys {
		if k.ID == "" || k.Name == "" {
			return nil, odd("GET /ssh-keys: a key has no ID or no name")
		}
		keys = append(keys, cloud.Key{ID: k.ID, Name: k.Name, Line: k.PublicKey})
	}
	return keys, nil
}

func (c *client) addKey(ctx context.Context, name, line string) error {
	return c.rest.Do(ctx, "POST", "/ssh-keys", map[string]string{"name": name, "publicKey": line}, nil)
}

func (c *client) deleteKey(ctx context.Context, id string) error {
	return c.rest.Do(ctx, "DELETE", "/ssh-keys/"+url.PathEscape(id), nil, nil)
}

// launch rents a machine. It is never repeated: the API has no idempotency keys.
func (c *client) launch(ctx context.Context, in launch) (uuid string, err error) {
	var out struct{ Response string }
	if err := c.rest.Do(ctx, "POST", "/instance/launch", in, &out); err != nil {
		return "", err
	}
	if out.Response == "" {
		return "", odd("the launch's answer names no machine")
	}
	return out.Response, nil
}

// instances returns all machines of the account.
func (c *client) instances(ctx context.Context) ([]instance, error) {
	var out instances
	if err := c.rest.Do(ctx, "GET", "/instance", nil, &out); err != nil {
		return nil, err
	}
	if out.Running == nil {
		return nil, odd("GET /instance: the answer has no list")
	}
	for _, in := range *out.Running {
		if in.UUID == "" {
			return nil, odd("GET /instance: a machine has no UUID")
		}
	}
	return *out.Running, nil
}

// instance returns one machine. An empty list means that it does not exist, or not yet.
func (c *client) instance(ctx context.Context, uuid string) (instance, error) {
	path := "/instance/" + url.PathEscape(uuid)
	var out instances
	if err := c.rest.Do(ctx, "GET", path, nil, &out); err != nil {
		return instance{}, err
	}
	if out.Single != nil {
		out.Running = &[]instance{*out.Single}
	}
	switch {
	case out.Running == nil:
		return instance{}, odd("GET %s: the answer has no list of machines", path)
	case len(*out.Running) == 0:
		return instance{}, &driver.Error{Kind: driver.ErrNotFound, Err: fmt.Errorf("GET %s: no such machine", path)}
	case len(*out.Running) != 1 || (*out.Running)[0].UUID != uuid:
		return instance{}, odd("GET %s: the answer is another machine", path)
	}
	return (*out.Running)[0], nil
}

// terminate ends one machine. The answer's list may be empty.
func (c *client) terminate(ctx context.Context, uuid string) error {
	var out struct{ Response json.RawMessage }
	err := c.rest.Do(ctx, "POST", "/instance/terminate", map[string][]string{"instanceUuids": {uuid}}, &out, rest.Idempotent)
	if err == nil && out.Response == nil {
		err = odd("the end of %s: the answer has no response", uuid)
	}
	return err
}
