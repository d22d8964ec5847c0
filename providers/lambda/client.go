package lambda

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A client calls the API, version 1.
type client struct {
	rest     *rest.Client
	launches *rest.Limiter
}

func newClient(c Config, key string) (*client, error) {
	interval := cmp.Or(c.LaunchInterval, 12*cloud.Second)
	r, err := rest.New(rest.Config{
		BaseURL: c.Endpoint + "/api/v1", HTTPClient: c.HTTPClient, Auth: rest.Bearer(key), Timeout: cmp.Or(c.RequestTimeout, 30*time.Second),
		Fault: fault, SecretFields: []string{"jupyter_token", "jupyter_url", "private_key"},
		Limit: cloud.Limiter(1, cloud.Second, c.Endpoint, key), FirstWait: cloud.Second,
	})
	return &client{r, cloud.Limiter(1, interval, c.Endpoint, key, "launch", interval.String())}, err
}

func (c *client) close() { c.rest.Close() }

// banned matches an answer that shuts the caller out for a while.
var banned = regexp.MustCompile(`(?i)\bbann?ed\b|\btemporar(?:y|ily) (?:ban|block)`)

// fault reads a failure of the API: {"error":{"code","message","suggestion"}}.
func fault(status int, body []byte) *rest.Fault {
	var said struct {
		Error *struct{ Code, Message, Suggestion string }
	}
	f := &rest.Fault{}
	switch {
	case json.Unmarshal(body, &said) == nil && said.Error != nil:
		f.Code, f.Message = said.Error.Code, strings.TrimSpace(said.Error.Message+" "+said.Error.Suggestion)
	case status != http.StatusTooManyRequests || !banned.Match(body):
		return nil
	default:
		f.Message = string(body[:min(len(body), 256)])
	}
	if status == http.StatusTooManyRequests && banned.Match(body) {
		f.RetryAfter = 60 * cloud.Second
	}
	return f
}

// do makes a call whose answer is in an envelope: {"data": ...}.
func do[T any](ctx context.Context, c *client, method, path string, in any, opts ...rest.Option) (T, error) {
	var out struct{ Data *T }
	var none T
	if err := c.rest.Do(ctx, method, path, in, &out, opts...); err != nil {
		return none, err
	}
	if out.Data == nil {
		return none, odd("%s %s: the answer has no data", method, path)
	}
	return *out.Data, nil
}

func odd(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{rest.ErrAnswer}, args...)...)
}

// types returns the types of machines by name.
func (c *client) types(ctx context.Context) (map[string]item, error) {
	return do[map[string]item](ctx, c, "GET", "/instance-types", nil)
}

// keys returns the account's SSH keys.
func (c *client) keys(ctx context.Context) ([]cloud.Key, error) {
	all, err := do[[]sshKey](ctx, c, "GET", "/ssh-keys", nil)
	var keys []cloud.Key
	for _, k := range all {
		if k.ID == "" || k.Name == "" {
			return nil, odd("GET /ssh-keys: a key has no ID or no name")
		}
		keys = append(keys, cloud.Key{ID: k.ID, Name: k.Name, Line: k.PublicKey})
	}
	return keys, err
}

// addKey registers a public key. Without one the service would make a pair, and return the
// private half.
func (c *client) addKey(ctx context.Context, name, line string) error {
	_, err := do[sshKey](ctx, c, "POST", "/ssh-keys", map[string]string{"name": name, "public_key": line})
	return err
}

func (c *client) deleteKey(ctx context.Context, id string) error {
	return c.rest.Do(ctx, "DELETE", "/ssh-keys/"+url.PathEscape(id), nil, nil)
}

// launch rents a machine. It is never repeated: the API has no idempotency keys.
func (c *client) launch(ctx context.Context, in launch) (id string, err error) {
	out, err := do[struct {
		IDs []string `json:"instance_ids"`
	}](ctx, c, "POST", "/instance-operations/launch", in, rest.Limit(c.launches))
	if err == nil && (len(out.IDs) != 1 || out.IDs[0] == "") {
		err = odd("the answer to the launch of one machine names %q", out.IDs)
	}
	if err != nil {
		return "", err
	}
	return out.IDs[0], nil
}

// instances returns all machines of the account.
func (c *client) instances(ctx context.Context) ([]instance, error) {
	all, err := do[[]instance](ctx, c, "GET", "/instances", nil)
	for _, in := range all {
		if in.ID == "" || in.Status == "" {
			return nil, odd("GET /instances: a machine has no ID or no status")
		}
	}
	return all, err
}

func (c *client) instance(ctx context.Context, id string) (instance, error) {
	path := "/instances/" + url.PathEscape(id)
	in, err := do[instance](ctx, c, "GET", path, nil)
	if err == nil && (in.ID != id || in.Status == "") {
		err = odd("GET %s: the answer is machine %q in state %q", path, in.ID, in.Status)
	}
	return in, err
}

// terminate ends one machine, and returns the machines that the call has ended. It takes one,
// as one wrong ID would fail a call for several.
func (c *client) terminate(ctx context.Context, id string) ([]instance, error) {
	out, err := do[struct {
		Ended *[]instance `json:"terminated_instances"`
	}](ctx, c, "POST", "/instance-operations/terminate", map[string][]string{"instance_ids": {id}}, rest.Idempotent)
	if err == nil && out.Ended == nil {
		err = odd("the end of %s: the answer has no list of ended machines", id)
	}
	if err != nil {
		return nil, err
	}
	return *out.Ended, nil
}
