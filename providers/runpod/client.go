package runpod

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A client calls RunPod's APIs: REST v2, and GraphQL for what v2 lacks.
type client struct {
	v2, graphQL *rest.Client
}

func newClient(c Config, key string) (*client, error) {
	api := rest.Config{
		BaseURL: c.endpoint() + "/v2", HTTPClient: c.HTTPClient, Auth: rest.Bearer(key), Timeout: c.requestTimeout(), FirstWait: cloud.Second,
		Fault: problem, SecretFields: []string{envHostKey, keyVariable, "JUPYTER_PASSWORD"},
	}
	v2, err := rest.New(api)
	if err != nil {
		return nil, err
	}
	api.BaseURL, api.Fault, api.Timeout = c.endpoint(), graphQLFault, 2*c.requestTimeout()
	old, err := rest.New(api)
	if err != nil {
		v2.Close()
		return nil, err
	}
	return &client{v2, old}, nil
}

func (c *client) close() {
	c.v2.Close()
	c.graphQL.Close()
}

// hide registers secrets that are sent and may come back, so that errors omit them.
func (c *client) hide(secrets ...string) {
	c.v2.Hide(secrets...)
	c.graphQL.Hide(secrets...)
}

// problem reads an application/problem+json.
func problem(status int, body []byte) *rest.Fault {
	var p struct {
		Title, Detail string
		Errors        []string
	}
	if status < 300 || json.Unmarshal(body, &p) != nil || p.Title+p.Detail == "" && len(p.Errors) == 0 {
		return nil
	}
	message := strings.Join(append([]string{p.Detail}, p.Errors...), "; ")
	f := &rest.Fault{Code: p.Title, Message: strings.TrimPrefix(message, "; ")}
	if status == http.StatusBadRequest && isOpaque(f) {
		f.Status = http.StatusInternalServerError
	}
	return f
}

func (c *client) createPod(ctx context.Context, in createPod) (pod, error) {
	var out pod
	err := c.v2.Do(ctx, http.MethodPost, "/pods", in, &out)
	return out, identified(err, out.ID)
}

func (c *client) pod(ctx context.Context, id string) (pod, error) {
	var out pod
	err := c.v2.Do(ctx, http.MethodGet, "/pods/"+url.PathEscape(id), nil, &out)
	return out, identified(err, out.ID)
}

// pods lists the account's pods, including those of clusters.
func (c *client) pods(ctx context.Context) ([]pod, error) {
	return list(ctx, c, "/pods", "pods", url.Values{"includeClusterPods": {"true"}}, func(p pod) string { return p.ID })
}

func (c *client) deletePod(ctx context.Context, id string) error {
	return c.v2.Do(ctx, http.MethodDelete, "/pods/"+url.PathEscape(id), nil, nil)
}

func (c *client) createCluster(ctx context.Context, in createCluster) (cluster, error) {
	var out cluster
	err := c.v2.Do(ctx, http.MethodPost, "/clusters", in, &out)
	return out, identified(err, out.ID)
}

func (c *client) clusters(ctx context.Context) ([]cluster, error) {
	return list(ctx, c, "/clusters", "clusters", nil, func(k cluster) string { return k.ID })
}

func (c *client) clusterPods(ctx context.Context, id string) ([]pod, error) {
	var out struct{ Pods *[]pod }
	if err := c.v2.Do(ctx, http.MethodGet, "/clusters/"+url.PathEscape(id)+"/pods", nil, &out); err != nil {
		return nil, err
	}
	if out.Pods == nil {
		return nil, odd("GET /clusters/%s/pods: the answer has no list of pods", id)
	}
	return *out.Pods, nil
}

func (c *client) deleteCluster(ctx context.Context, id string) error {
	return c.v2.Do(ctx, http.MethodDelete, "/clusters/"+url.PathEscape(id), nil, nil)
}

// gpuTypes returns the types of GPU for pods or clusters, with their stock.
func (c *client) gpuTypes(ctx context.Context, product string, count int, of Cloud, country, minCUDA string) ([]gpuType, error) {
	query := url.Values{
		"include": {"AVAILABILITY"}, "product": {product}, "count": {strconv.Itoa(count)}, "cloud": {strings.ToUpper(string(of))},
	}
	if country != "" {
		query.Set("countryCodes", country)
	}
	if minCUDA != "" {
		query.Set("minCudaVersion", minCUDA)
	}
	return list(ctx, c, "/catalog/gpus", "gpus", query, func(g gpuType) string { return g.ID })
}

func (c *client) cpuTypes(ctx context.Context) ([]cpuType, error) {
	query := url.Values{"include": {"AVAILABILITY"}, "product": {"POD"}}
	return list(ctx, c, "/catalog/cpus", "cpus", query, func(t cpuType) string { return t.ID })
}

func (c *client) dataCenters(ctx context.Context) ([]dataCenter, error) {
	return list(ctx, c, "/catalog/datacenters", "dataCenters", nil, func(d dataCenter) string { return d.ID })
}

func (c *client) networkVolumes(ctx context.Context) ([]networkVolume, error) {
	return list(ctx, c, "/network-volumes", "networkVolumes", nil, func(v networkVolume) string { return v.ID })
}

func (c *client) registries(ctx context.Context) ([]registry, error) {
	return list(ctx, c, "/registries", "registries", nil, func(r registry) string { return r.ID })
}

// list reads all pages of a list. A page without its field, with an item that has no ID, or
// with more pages but no cursor is an error: it would pass for a shorter list.
func list[T any](ctx context.Context, c *client, path, field string, query url.Values, id func(T) string) ([]T, error) {
	var all []T
	for item, err := range rest.Pages(func(cursor string) ([]T, string, error) {
		q := url.Values{}
		for name, values := range query {
			q[name] = values
		}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		var raw map[string]json.RawMessage
		if err := c.v2.Do(ctx, http.MethodGet, path, nil, &raw, rest.Query(q)); err != nil {
			return nil, "", err
		}
		var items *[]T
		var pages pagination
		if err := rest.Unmarshal(ctx, raw[field], &items); err != nil || items == nil {
			return nil, "", odd("GET %s: the answer has no list of %s", path, field)
		}
		if raw["pagination"] != nil {
			if err := json.Unmarshal(raw["pagination"], &pages); err != nil {
				return nil, "", odd("GET %s: the pagination: %v", path, err)
			}
		}
		switch {
		case !pages.HasNextPage:
			return *items, "", nil
		case pages.NextCursor == "":
			return nil, "", odd("GET %s: the answer has more pages but no cursor", path)
		}
		return *items, pages.NextCursor, nil
	}) {
		if err != nil {
			return nil, err
		}
		if id(item) == "" {
			return nil, odd("GET %s: an item has no ID", path)
		}
		all = append(all, item)
	}
	return all, nil
}

// identified returns err, or the error of a thing without its ID.
func identified(err error, id string) error {
	if err == nil && id == "" {
		return odd("the answer has no ID")
	}
	return err
}

func odd(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{rest.ErrAnswer}, args...)...)
}
