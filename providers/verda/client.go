package verda

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A client has one method for each endpoint that the driver uses.
type client struct {
	*rest.Client
	tokens *rest.Client
	limits struct{ create, act, instances, volumes *rest.Limiter }
}

// newClient returns a client of the API. The limits are the API's documented ones: calls a
// minute for the project, and fewer for some paths.
func newClient(c Config, secret string) (*client, error) {
	cfg := rest.Config{
		BaseURL:      cmp.Or(c.Endpoint, defaultEndpoint),
		HTTPClient:   c.HTTPClient,
		Fault:        fault,
		SecretFields: []string{"access_token", "refresh_token", "client_secret", "jupyter_token"},
		Timeout:      c.RequestTimeout,
		FirstWait:    cloud.Second,
		Limit:        cloud.Limiter(500, time.Minute, c.Endpoint, c.ClientID),
	}
	tokens, err := rest.New(cfg)
	if err != nil {
		return nil, err
	}
	cfg.Auth = rest.ClientCredentials(tokens, "/oauth2/token", c.ClientID, secret)
	api, err := rest.New(cfg)
	if err != nil {
		return nil, err
	}
	out := &client{Client: api, tokens: tokens}
	limit := func(n int, path string) *rest.Limiter {
		return cloud.Limiter(n, time.Minute, c.Endpoint, c.ClientID, path)
	}
	out.limits.create, out.limits.act = limit(60, "POST /instances"), limit(60, "PUT /instances")
	out.limits.instances, out.limits.volumes = limit(120, "GET /instances"), limit(120, "GET /volumes")
	return out, nil
}

func (c *client) Close() {
	c.Client.Close()
	c.tokens.Close()
}

// balance returns the project's balance, and its currency. The call needs valid credentials.
func (c *client) balance(ctx context.Context) (amount float64, code string, err error) {
	var out struct {
		Amount   *float64 `json:"amount"`
		Currency string   `json:"currency"`
	}
	if err := c.Do(ctx, http.MethodGet, "/balance", nil, &out); err != nil {
		return 0, "", err
	}
	if out.Amount == nil {
		return 0, "", odd(http.MethodGet, "/balance", "the answer has no amount")
	}
	return *out.Amount, out.Currency, nil
}

func (c *client) instanceTypes(ctx context.Context) ([]instanceType, error) {
	return list(ctx, c, "/instance-types", func(t instanceType) bool { return t.InstanceType != "" }, rest.Query(url.Values{"currency": {"usd"}}))
}

func (c *client) stock(ctx context.Context, spot bool) ([]stock, error) {
	return list(ctx, c, "/instance-availability", func(s stock) bool { return s.Location != "" && s.Types != nil },
		rest.Query(url.Values{"is_spot": {strconv.FormatBool(spot)}}))
}

func (c *client) locations(ctx context.Context) ([]location, error) {
	return list(ctx, c, "/locations", func(l location) bool { return l.Code != "" })
}

func (c *client) volumeTypes(ctx context.Context) ([]volumeType, error) {
	return list(ctx, c, "/volume-types", func(t volumeType) bool { return t.Type != "" })
}

func (c *client) images(ctx context.Context, instanceType string) ([]image, error) {
	return list(ctx, c, "/images", func(i image) bool { return i.ID != "" }, rest.Query(url.Values{"instance_type": {instanceType}}))
}

func (c *client) sshKeys(ctx context.Context) ([]sshKey, error) {
	return list(ctx, c, "/ssh-keys", func(k sshKey) bool { return k.ID != "" })
}

func (c *client) addSSHKey(ctx context.Context, name, line string) error {
	var id string
	return c.Do(ctx, http.MethodPost, "/ssh-keys", map[string]string{"name": name, "key": line}, &id)
}

func (c *client) deleteSSHKey(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/ssh-keys/"+url.PathEscape(id), nil, nil, rest.EmptyAnswer)
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// create rents a machine. The answer is only its ID, with or without quotes.
func (c *client) create(ctx context.Context, o order) (id string, err error) {
	if err := c.Do(ctx, http.MethodPost, "/instances", o, &id, rest.Limit(c.limits.create)); err != nil {
		return "", err
	}
	if !uuid.MatchString(id) {
		return "", odd(http.MethodPost, "/instances", "the answer is not the ID of an instance")
	}
	return id, nil
}

func (c *client) instances(ctx context.Context) ([]instance, error) {
	return list(ctx, c, "/instances", func(in instance) bool { return in.ID != "" && in.Status != "" }, rest.Limit(c.limits.instances))
}

func (c *client) instance(ctx context.Context, id string) (in instance, err error) {
	path := "/instances/" + url.PathEscape(id)
	if err := c.Do(ctx, http.MethodGet, path, nil, &in); err != nil {
		return instance{}, err
	}
	if in.ID != id || in.Status == "" {
		return instance{}, odd(http.MethodGet, path, fmt.Sprintf("the answer is instance %q in state %q", in.ID, in.Status))
	}
	return in, nil
}

// end deletes a machine, and a volume permanently. A good status may contain a refusal for a
// machine.
func (c *client) end(ctx context.Context, id, volume string) error {
	in := action{Action: "delete", IDs: []string{id}, Permanently: true}
	if volume != "" {
		in.VolumeIDs = []string{volume}
	}
	var out []actionResult // empty if an earlier call did it
	err := c.Do(ctx, http.MethodPut, "/instances", in, &out, rest.Idempotent, rest.EmptyAnswer, rest.Limit(c.limits.act))
	if err != nil || len(out) == 0 {
		return err
	}
	i := slices.IndexFunc(out, func(r actionResult) bool { return r.InstanceID == id })
	switch {
	case i < 0:
		return odd(http.MethodPut, "/instances", "the answer has no result for the instance")
	case out[i].Status != "success":
		return &rest.Error{Method: http.MethodPut, Path: "/instances", Status: out[i].StatusCode, Code: out[i].Status, Message: out[i].Error}
	}
	return nil
}

func (c *client) addTag(ctx context.Context, id, key, value string) error {
	return c.Do(ctx, http.MethodPost, "/instances/"+url.PathEscape(id)+"/tags", tag{Key: key, Value: value}, nil, rest.EmptyAnswer)
}

func (c *client) deleteTag(ctx context.Context, id, tagID string) error {
	path := "/instances/" + url.PathEscape(id) + "/tags/" + url.PathEscape(tagID)
	return c.Do(ctx, http.MethodDelete, path, nil, nil, rest.EmptyAnswer)
}

// volumes returns all volumes of the project, including the trash.
func (c *client) volumes(ctx context.Context) ([]volume, error) {
	complete := func(v volume) bool { return v.ID != "" && v.Status != "" }
	kept, err := list(ctx, c, "/volumes", complete, rest.Limit(c.limits.volumes))
	if err != nil {
		return nil, err
	}
	trash, err := list(ctx, c, "/volumes/trash", complete)
	return append(kept, trash...), err
}

func (c *client) deleteVolume(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/volumes/"+url.PathEscape(id), map[string]bool{"is_permanent": true}, nil, rest.EmptyAnswer)
}

// list gets a list and checks that all of its items are complete.
func list[T any](ctx context.Context, c *client, path string, complete func(T) bool, opts ...rest.Option) ([]T, error) {
	var out []T
	if err := c.Do(ctx, http.MethodGet, path, nil, &out, opts...); err != nil {
		return nil, err
	}
	if out == nil {
		return nil, odd(http.MethodGet, path, "the answer has no list")
	}
	for i := len(out) - 1; i >= 0; i-- {
		if complete(out[i]) {
			continue
		}
		if err := odd(http.MethodGet, path, fmt.Sprintf("item %d of the answer is incomplete", i)); !rest.LeftOut(ctx, err) {
			return nil, err
		}
		out = slices.Delete(out, i, i+1)
	}
	return out, nil
}

// odd returns the error of an unexpected answer.
func odd(method, path, why string) error {
	return &rest.Error{Method: method, Path: path, Err: fmt.Errorf("%w: %s", rest.ErrAnswer, why)}
}
