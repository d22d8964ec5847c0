package vastai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/hashicorp/go-cleanhttp"
)

// A client calls the API, one method per endpoint. It makes no decisions.
type client struct {
	rest   *rest.Client
	plain  http.RoundTripper // for addresses that are not the API's
	local  bool              // the API's address is on this computer, or its link
	limits limits
	idle   func() // closes the connections of the client's own transport
}

func newClient(cfg Config, key string) (*client, error) {
	own := http.Client{}
	closeIdle := func() {}
	if cfg.HTTPClient != nil {
		own = *cfg.HTTPClient
	} else {
		transport := cleanhttp.DefaultPooledTransport()
		own.Transport, closeIdle = transport, transport.CloseIdleConnections
	}
	plain := cmp.Or(own.Transport, http.DefaultTransport)
	own.Transport = pacer{plain}
	api, err := rest.New(rest.Config{
		BaseURL:      cfg.Endpoint,
		HTTPClient:   &own,
		Auth:         rest.Bearer(key),
		Fault:        fault,
		SecretFields: []string{"instance_api_key"},
		Timeout:      cfg.RequestTimeout,
		FirstWait:    cloud.Second,
	})
	if err != nil {
		return nil, err
	}
	return &client{rest: api, plain: plain, local: localnet.IsURL(cfg.Endpoint), limits: limitsOf(cfg.Endpoint, key), idle: closeIdle}, nil
}

func (c *client) close() {
	c.rest.Close()
	c.idle()
}

// A done is the answer of a call that only reports success.
type done struct {
	Success bool `json:"success"`
}

// do makes a call whose answer must have success:true. An answer with neither that nor a
// failure is an error.
func (c *client) do(ctx context.Context, method, path string, in any, opts ...rest.Option) error {
	var out done
	if err := c.rest.Do(ctx, method, path, in, &out, opts...); err != nil {
		return err
	}
	if !out.Success {
		return fmt.Errorf("%s %s: %w: the answer does not report success", method, path, rest.ErrAnswer)
	}
	return nil
}

func instancePath(id string) string { return "/api/v0/instances/" + url.PathEscape(id) + "/" }

// search returns the asks that match a query.
func (c *client) search(ctx context.Context, query map[string]any) ([]ask, error) {
	var out struct {
		Offers *[]ask `json:"offers"`
	}
	if err := c.rest.Do(ctx, "POST", "/api/v0/bundles/", query, &out, rest.Safe, rest.Limit(c.limits.search)); err != nil {
		return nil, err
	}
	if out.Offers == nil {
		return nil, fmt.Errorf("POST /api/v0/bundles/: %w: the answer has no offers", rest.ErrAnswer)
	}
	return *out.Offers, nil
}

// create accepts an ask, and returns the ID of the instance. It is not repeated if it may have
// taken effect.
func (c *client) create(ctx context.Context, askID int64, in createRequest) (string, error) {
	var out struct {
		done
		NewContract int64 `json:"new_contract"`
	}
	path := "/api/v0/asks/" + strconv.FormatInt(askID, 10) + "/"
	if err := c.rest.Do(ctx, "PUT", path, in, &out, rest.Limit(c.limits.create)); err != nil {
		return "", err
	}
	if out.NewContract == 0 {
		return "", fmt.Errorf("PUT %s: %w: the answer names no contract; the call may have taken effect", path, errNoContract)
	}
	return strconv.FormatInt(out.NewContract, 10), nil
}

// errNoContract means that the answer of a create lacks the instance that it made.
var errNoContract = errors.New("unexpected answer")

// list returns all instances. It is an error if the pages have fewer than the total that the
// API reports.
func (c *client) list(ctx context.Context) ([]instance, error) {
	total, all, seen := -1, []instance{}, map[int64]bool{}
	odd := func(what string, args ...any) error {
		return fmt.Errorf("GET /api/v1/instances/: %w: "+what, append([]any{rest.ErrAnswer}, args...)...)
	}
	for in, err := range rest.Pages(func(cursor string) ([]instance, string, error) {
		query := url.Values{"limit": {"25"}}
		if cursor != "" {
			query.Set("after_token", cursor)
		}
		var p page
		if err := c.rest.Do(ctx, "GET", "/api/v1/instances/", nil, &p, rest.Query(query), rest.Limit(c.limits.list)); err != nil {
			return nil, "", err
		}
		if p.Instances == nil {
			return nil, "", odd("the answer has no instances, not even an empty list")
		}
		if p.Total != nil {
			total = *p.Total
		}
		next := ""
		if p.NextToken != nil {
			next = *p.NextToken
		}
		return *p.Instances, next, nil
	}) {
		if err != nil {
			return nil, err
		}
		if in.ID == 0 {
			return nil, odd("an instance has no id")
		}
		if !seen[in.ID] { // pages may shift during the reads
			all = append(all, in)
		}
		seen[in.ID] = true
	}
	if total >= 0 && len(all) < total {
		return nil, odd("the answer has %d of %d instances", len(all), total)
	}
	return all, nil
}

// instance returns one instance, or nil if it does not exist.
func (c *client) instance(ctx context.Context, id string) (*instance, error) {
	var out struct {
		Instances json.RawMessage `json:"instances"`
	}
	err := c.rest.Do(ctx, "GET", instancePath(id), nil, &out, rest.Query(url.Values{"owner": {"me"}}), rest.Limit(c.limits.show))
	if err != nil {
		return nil, err
	}
	var in *instance
	if len(out.Instances) == 0 {
		err = errors.New("the answer has no instances, not even null")
	} else if err = json.Unmarshal(out.Instances, &in); err == nil && in != nil && strconv.FormatInt(in.ID, 10) != id {
		err = fmt.Errorf("the answer is about instance %d", in.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w: %w", instancePath(id), rest.ErrAnswer, err)
	}
	return in, nil
}

func (c *client) setLabel(ctx context.Context, id, label string) error {
	return c.do(ctx, "PUT", instancePath(id), map[string]string{"label": label}, rest.Idempotent, rest.Limit(c.limits.manage))
}

// destroy ends an instance and its billing.
func (c *client) destroy(ctx context.Context, id string) error {
	return c.do(ctx, "DELETE", instancePath(id), struct{}{}, rest.Limit(c.limits.destroy))
}

// destroyAll ends several instances by one call.
func (c *client) destroyAll(ctx context.Context, ids []int64) error {
	return c.do(ctx, "DELETE", "/api/v0/instances/", map[string][]int64{"instance_ids": ids}, rest.Limit(c.limits.destroy))
}

// keys returns the account's SSH keys. A 404 means that it has none, unless its text calls the
// API key wrong, or it is a gateway's page.
func (c *client) keys(ctx context.Context) ([]sshKey, error) {
	var out []sshKey
	err := c.rest.Do(ctx, "GET", "/api/v0/ssh/", nil, &out, rest.Limit(c.limits.ssh))
	if e, ok := errors.AsType[*rest.Error](err); ok && e.Status == http.StatusNotFound && kindOf(err) == driver.ErrNotFound &&
		!strings.HasPrefix(strings.TrimSpace(e.Body), "<") {
		return nil, nil
	}
	if err == nil && out == nil {
		err = fmt.Errorf("GET /api/v0/ssh/: %w: the answer is null", rest.ErrAnswer)
	}
	return out, err
}

func (c *client) addKey(ctx context.Context, line string) error {
	return c.do(ctx, "POST", "/api/v0/ssh/", map[string]string{"ssh_key": line}, rest.Limit(c.limits.ssh))
}

func (c *client) deleteKey(ctx context.Context, id string) error {
	return c.do(ctx, "DELETE", "/api/v0/ssh/"+url.PathEscape(id)+"/", nil, rest.Limit(c.limits.ssh))
}

func (c *client) overlays(ctx context.Context) ([]overlay, error) {
	var out []overlay
	err := c.rest.Do(ctx, "GET", "/api/v0/overlay/", nil, &out, rest.Limit(c.limits.overlay))
	if err == nil && out == nil {
		err = fmt.Errorf("GET /api/v0/overlay/: %w: the answer is null", rest.ErrAnswer)
	}
	return out, err
}

func (c *client) makeOverlay(ctx context.Context, cluster int64, name string) error {
	in := map[string]any{"cluster_id": cluster, "name": name}
	return c.do(ctx, "POST", "/api/v0/overlay/", in, rest.Limit(c.limits.overlay))
}

// deleteOverlay removes a network, which ends all instances in it.
func (c *client) deleteOverlay(ctx context.Context, id int64) error {
	return c.do(ctx, "DELETE", "/api/v0/overlay/", map[string]int64{"overlay_id": id}, rest.Limit(c.limits.overlay))
}

func (c *client) user(ctx context.Context) (user, error) {
	var out user
	err := c.rest.Do(ctx, "GET", "/api/v0/users/current/", nil, &out, rest.Limit(c.limits.user))
	if err == nil && out.ID == 0 {
		err = fmt.Errorf("GET /api/v0/users/current/: %w: the answer has no id", rest.ErrAnswer)
	}
	return out, err
}
