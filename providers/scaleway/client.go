package scaleway

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A client makes the calls of Scaleway's APIs for instances, block storage and the marketplace.
type client struct {
	rest    *rest.Client
	project string
}

func newClient(c Config, key string) (*client, error) {
	r, err := rest.New(rest.Config{
		BaseURL: cmp.Or(c.Endpoint, defaultEndpoint), HTTPClient: c.HTTPClient, Timeout: c.RequestTimeout,
		Auth: rest.HeaderKey("X-Auth-Token", key), Fault: fault, FirstWait: cloud.Second,
		Limit: cloud.Limiter(10, cloud.Second, c.Endpoint, key), // a guess: the rate is not published
	})
	if err != nil {
		return nil, err
	}
	return &client{rest: r, project: c.ProjectID}, nil
}

func (c *client) close() { c.rest.Close() }

func instances(zone string, more ...string) string { return path("instance", zone, more) }
func block(zone string, more ...string) string     { return path("block", zone, more) }

func path(api, zone string, more []string) string {
	p := "/" + api + "/v1/zones/" + url.PathEscape(zone)
	for _, m := range more {
		p += "/" + url.PathEscape(m)
	}
	return p
}

// check makes a call that needs a valid key.
func (c *client) check(ctx context.Context, zone string) error {
	var out struct {
		Servers *[]server `json:"servers"`
	}
	q := url.Values{"project": {c.project}, "per_page": {"1"}, "page": {"1"}}
	if err := c.rest.Do(ctx, "GET", instances(zone, "servers"), nil, &out, rest.Query(q)); err != nil {
		return err
	}
	return checkList("servers", out.Servers)
}

// checkList returns an error unless an answer has the list.
func checkList[T any](what string, list *T) error {
	if list == nil {
		return fmt.Errorf("%w: the answer has no %s", rest.ErrAnswer, what)
	}
	return nil
}

const perPage = 100 // the maximum

// pages reads a list. get reads one page and returns the total number of items, or a negative
// number if the answer does not have it.
func pages[T any](get func(page string) (items []T, total int, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		seen := 0
		for item, err := range rest.Pages(func(cursor string) ([]T, string, error) {
			page, _ := strconv.Atoi(cmp.Or(cursor, "1"))
			items, total, err := get(strconv.Itoa(page))
			if err != nil {
				return nil, "", err
			}
			seen += len(items)
			switch {
			case total < 0 && len(items) < perPage, total >= 0 && seen >= total:
				return items, "", nil
			case len(items) == 0:
				return nil, "", fmt.Errorf("%w: page %d of the list is empty, after %d of %d items", rest.ErrAnswer, page, seen, total)
			}
			return items, strconv.Itoa(page + 1), nil
		}) {
			if !yield(item, err) {
				return
			}
		}
	}
}

// collect returns all items of a list.
func collect[T any](list iter.Seq2[T, error]) (all []T, err error) {
	for item, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}

// page reads one page of a list of the instances API, whose total is in a header.
func (c *client) page(ctx context.Context, path, page string, q url.Values, out any) (total int, err error) {
	var header http.Header
	q.Set("page", page)
	q.Set("per_page", strconv.Itoa(perPage))
	if err := c.rest.Do(ctx, "GET", path, nil, out, rest.Query(q), rest.AnswerHeader(&header)); err != nil {
		return 0, err
	}
	if total, err = strconv.Atoi(header.Get("X-Total-Count")); err != nil || total < 0 {
		return -1, nil
	}
	return total, nil
}

// keyed is an item of a list that the API writes as an object.
type keyed[T any] struct {
	key   string
	value T
}

func entries[T any](m map[string]T) (all []keyed[T]) {
	for k, v := range m {
		all = append(all, keyed[T]{k, v})
	}
	return all
}

// products returns the types of machines that a zone has, page by page.
func (c *client) products(ctx context.Context, zone string) iter.Seq2[keyed[product], error] {
	return pages(func(page string) ([]keyed[product], int, error) {
		var out struct {
			Servers *map[string]product `json:"servers"`
		}
		total, err := c.page(ctx, instances(zone, "products", "servers"), page, url.Values{}, &out)
		if err == nil {
			err = checkList("servers", out.Servers)
		}
		if err != nil {
			return nil, 0, err
		}
		return entries(*out.Servers), total, nil
	})
}

// stock returns a zone's stock by type of machine: "available", "scarce", "shortage".
func (c *client) stock(ctx context.Context, zone string) (map[string]string, error) {
	type availability struct {
		Availability string `json:"availability"`
	}
	stock := map[string]string{}
	for s, err := range pages(func(page string) ([]keyed[availability], int, error) {
		var out struct {
			Servers *map[string]availability `json:"servers"`
		}
		total, err := c.page(ctx, instances(zone, "products", "servers", "availability"), page, url.Values{}, &out)
		if err == nil {
			err = checkList("servers", out.Servers)
		}
		if err != nil {
			return nil, 0, err
		}
		return entries(*out.Servers), total, nil
	}) {
		if err != nil {
			return nil, err
		}
		stock[s.key] = s.value.Availability
	}
	return stock, nil
}

// images returns a zone's images with a label of the marketplace, for block storage.
func (c *client) images(ctx context.Context, zone, label string) ([]localImage, error) {
	return collect(pages(func(page string) ([]localImage, int, error) {
		var out struct {
			Images *[]localImage `json:"local_images"`
			Total  int           `json:"total_count"`
		}
		out.Total = -1
		q := url.Values{"image_label": {label}, "zone": {zone}, "type": {"instance_sbs"}, "page": {page}, "page_size": {strconv.Itoa(perPage)}}
		if err := c.rest.Do(ctx, "GET", "/marketplace/v2/local-images", nil, &out, rest.Query(q)); err != nil {
			return nil, 0, err
		}
		if err := checkList("local_images", out.Images); err != nil {
			return nil, 0, err
		}
		return *out.Images, out.Total, nil
	}))
}

// hasImage reports whether a zone has an image of that ID: one of the project, or a public one.
func (c *client) hasImage(ctx context.Context, zone, id string) (bool, error) {
	type image struct {
		ID string `json:"id"`
	}
	for _, of := range []url.Values{{"project": {c.project}}, {"public": {"true"}}} {
		for i, err := range pages(func(page string) ([]image, int, error) {
			var out struct {
				Images *[]image `json:"images"`
			}
			total, err := c.page(ctx, instances(zone, "images"), page, of, &out)
			if err == nil {
				err = checkList("images", out.Images)
			}
			if err != nil {
				return nil, 0, err
			}
			return *out.Images, total, nil
		}) {
			if err != nil || strings.EqualFold(i.ID, id) {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// organization returns the ID of the organization that has the project, or "". The default
// security group names it, which every zone has that the project uses.
func (c *client) organization(ctx context.Context, zone string) (string, error) {
	var out struct {
		Groups *[]struct {
			Organization string `json:"organization"`
		} `json:"security_groups"`
	}
	_, err := c.page(ctx, instances(zone, "security_groups"), "1", url.Values{"project": {c.project}, "project_default": {"true"}}, &out)
	if err == nil {
		err = checkList("security_groups", out.Groups)
	}
	if err != nil || len(*out.Groups) == 0 {
		return "", err
	}
	return (*out.Groups)[0].Organization, nil
}

// quotas returns the limits of an organization.
func (c *client) quotas(ctx context.Context, organization string) ([]quotum, error) {
	return collect(pages(func(page string) ([]quotum, int, error) {
		var out struct {
			Quota *[]quotum `json:"quota"`
			Total int       `json:"total_count"`
		}
		out.Total = -1
		q := url.Values{"organization_id": {organization}, "page": {page}, "page_size": {strconv.Itoa(perPage)}}
		if err := c.rest.Do(ctx, "GET", "/iam/v1alpha1/quota", nil, &out, rest.Query(q)); err != nil {
			return nil, 0, err
		}
		if err := checkList("quota", out.Quota); err != nil {
			return nil, 0, err
		}
		return *out.Quota, out.Total, nil
	}))
}

// countServers returns the number of an organization's servers of a type, as far as the key may
// see them.
func (c *client) countServers(ctx context.Context, zone, organization, kind string) (int, error) {
	n := 0
	for _, err := range pages(func(page string) ([]server, int, error) {
		var out struct {
			Servers *[]server `json:"servers"`
		}
		q := url.Values{"organization": {organization}, "commercial_type": {kind}}
		total, err := c.page(ctx, instances(zone, "servers"), page, q, &out)
		if err == nil {
			err = checkList("servers", out.Servers)
		}
		if err != nil {
			return nil, 0, err
		}
		return *out.Servers, total, nil
	}) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// servers returns the project's servers with a tag.
func (c *client) servers(ctx context.Context, zone, tag string) ([]server, error) {
	return collect(pages(func(page string) ([]server, int, error) {
		var out struct {
			Servers *[]server `json:"servers"`
		}
		total, err := c.page(ctx, instances(zone, "servers"), page, url.Values{"project": {c.project}, "tags": {tag}}, &out)
		if err == nil {
			err = checkList("servers", out.Servers)
		}
		if err != nil {
			return nil, 0, err
		}
		for _, s := range *out.Servers {
			if !uuidForm.MatchString(s.ID) {
				return nil, 0, fmt.Errorf("%w: a server has the ID %q", rest.ErrAnswer, s.ID)
			}
		}
		return *out.Servers, total, nil
	}))
}

type oneServer struct {
	Server server `json:"server"`
}

func (c *client) server(ctx context.Context, zone, id string) (server, error) {
	var out oneServer
	if err := c.rest.Do(ctx, "GET", instances(zone, "servers", id), nil, &out); err != nil {
		return server{}, err
	}
	if !strings.EqualFold(out.Server.ID, id) {
		return server{}, fmt.Errorf("%w: the answer for server %s is about %q", rest.ErrAnswer, id, out.Server.ID)
	}
	return out.Server, nil
}

// createServer makes a stopped server. It must not be repeated: the API has no token.
func (c *client) createServer(ctx context.Context, zone string, in createServer) (server, error) {
	var out oneServer
	if err := c.rest.Do(ctx, "POST", instances(zone, "servers"), in, &out); err != nil {
		return server{}, err
	}
	if !uuidForm.MatchString(out.Server.ID) {
		return server{}, fmt.Errorf("%w: the answer names no server", rest.ErrAnswer)
	}
	return out.Server, nil
}

func (c *client) setTags(ctx context.Context, zone, id string, tags []string) error {
	return c.rest.Do(ctx, "PATCH", instances(zone, "servers", id), map[string][]string{"tags": tags}, nil, rest.Idempotent)
}

func (c *client) setUserData(ctx context.Context, zone, id, key, text string) error {
	return c.rest.Do(ctx, "PATCH", instances(zone, "servers", id, "user_data", key), text, nil, rest.Idempotent)
}

func (c *client) userData(ctx context.Context, zone, id, key string) (text string, err error) {
	err = c.rest.Do(ctx, "GET", instances(zone, "servers", id, "user_data", key), nil, &text, rest.EmptyAnswer)
	return text, err
}

// An action is an action of a server.
type action string

const (
	powerOn   action = "poweron"
	powerOff  action = "poweroff"  // stops it; only a stopped server can be deleted
	terminate action = "terminate" // ends it without a stop
)

// act asks a server for an action, and reports whether the answer names a task for it that has
// not failed. An empty success is no promise.
func (c *client) act(ctx context.Context, zone, id string, a action, opts ...rest.Option) (promised bool, err error) {
	var out struct {
		Task *struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		} `json:"task"`
	}
	in := map[string]action{"action": a}
	err = c.rest.Do(ctx, "POST", instances(zone, "servers", id, "action"), in, &out, append(opts, rest.EmptyAnswer)...)
	return err == nil && out.Task != nil && out.Task.ID != "" && out.Task.Status != "failure", err
}

// deleteServer deletes a stopped server.
func (c *client) deleteServer(ctx context.Context, zone, id string) error {
	return c.rest.Do(ctx, "DELETE", instances(zone, "servers", id), nil, nil)
}

// volumes returns the project's volumes with a tag. Callers delete the result, so the tag is
// checked here as well.
func (c *client) volumes(ctx context.Context, zone, tag string) ([]volume, error) {
	all, err := collect(pages(func(page string) ([]volume, int, error) {
		var out struct {
			Volumes *[]volume `json:"volumes"`
			Total   int       `json:"total_count"`
		}
		out.Total = -1
		q := url.Values{"project_id": {c.project}, "tags": {tag}, "page": {page}, "page_size": {strconv.Itoa(perPage)}}
		if err := c.rest.Do(ctx, "GET", block(zone, "volumes"), nil, &out, rest.Query(q)); err != nil {
			return nil, 0, err
		}
		if err := checkList("volumes", out.Volumes); err != nil {
			return nil, 0, err
		}
		for _, v := range *out.Volumes {
			if !uuidForm.MatchString(v.ID) {
				return nil, 0, fmt.Errorf("%w: a volume has the ID %q", rest.ErrAnswer, v.ID)
			}
		}
		return *out.Volumes, out.Total, nil
	}))
	return slices.DeleteFunc(all, func(v volume) bool { return !slices.Contains(v.Tags, tag) }), err
}

func (c *client) tagVolume(ctx context.Context, zone, id string, tags []string) error {
	return c.rest.Do(ctx, "PATCH", block(zone, "volumes", id), map[string][]string{"tags": tags}, nil, rest.Idempotent)
}

func (c *client) deleteVolume(ctx context.Context, zone, id string) error {
	return c.rest.Do(ctx, "DELETE", block(zone, "volumes", id), nil, nil)
}
