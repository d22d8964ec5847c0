package vultr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// A snapshot is an image that machines of every region can start from. It has no tags: its description has
// what is known of it.
type snapshot struct {
	ID          string  `json:"id"`
	Created     string  `json:"date_created"`
	Description string  `json:"description"`
	Size        float64 `json:"size"` // bytes; 0 while it is made
	Status      string  `json:"status"`
}

// A description is a snapshot's, in JSON.
type description struct {
	Words string `json:"gputrain"` // the pool's tag
	Name  string `json:"name"`
	Key   string `json:"key"`
	Base  string `json:"base"`
	Baked bool   `json:"baked,omitempty"` // the image is finished
}

var _ driver.Baker = (*vultrDriver)(nil)

// Bake makes a snapshot of a machine. It is finished by its description.
func (d *vultrDriver) Bake(ctx context.Context, req driver.Bake) (driver.BakedImage, error) {
	return d.api.bakery().Bake(ctx, req)
}

// BakedImages lists the finished snapshots.
func (d *vultrDriver) BakedImages(ctx context.Context) ([]driver.BakedImage, error) {
	return d.api.bakery().BakedImages(ctx)
}

// DeleteBaked deletes snapshots.
func (d *vultrDriver) DeleteBaked(ctx context.Context, ids ...string) error {
	return d.api.bakery().DeleteBaked(ctx, ids...)
}

func (a *api) bakery() *cloud.Bakery {
	return &cloud.Bakery{Provider: providerName, Images: &snapshots{a.cfg, a.client}, Capabilities: a.Capabilities, Fail: func(op string, err error) error {
		return cloud.Fail(providerName, op, err, classify)
	}}
}

// base names the image that machines start from. Snapshots of bare metal do not exist.
func base(c Config) func(driver.Offer) string {
	return func(driver.Offer) string {
		if c.Mode != Cloud {
			return ""
		}
		os, image := c.image(c.Mode)
		if image != "" {
			return "image " + image
		}
		return "os " + strconv.Itoa(os)
	}
}

// snapshots are those of the account that gputrain has made.
type snapshots struct {
	cfg    Config //secretvet:ignore without the key
	client *client
}

// MakeImage makes a snapshot of a machine, which runs on.
func (s *snapshots) MakeImage(ctx context.Context, order cloud.ImageOrder) (string, error) {
	mode, id := parseID(order.Instance.ID)
	if mode != Cloud {
		return "", &driver.Error{Kind: driver.ErrUnsupported, Err: errors.New("there are no snapshots of bare metal")}
	}
	text, err := json.Marshal(description{Words: strings.Join(order.Tag.Words(), " "), Name: order.Name, Key: order.Key, Base: base(s.cfg)(order.Instance.Offer)})
	if err != nil {
		return "", err
	}
	return s.client.createSnapshot(ctx, id, string(text))
}

// snapshotStates are the states of snapshots.
var snapshotStates = map[string]cloud.ImageState{"pending": cloud.ImageMaking, "complete": cloud.ImageMade, "deleted": cloud.ImageFailed}

// Images lists the snapshots with gputrain's descriptions.
func (s *snapshots) Images(ctx context.Context) (all []cloud.Image, err error) {
	found, err := s.client.snapshots(ctx)
	for _, one := range found {
		var d description
		if json.Unmarshal([]byte(one.Description), &d) != nil {
			continue
		}
		t := pooltag.FromWords(strings.Fields(d.Words))
		if t.Pool == "" {
			continue
		}
		created, _ := time.Parse(time.RFC3339, one.Created) // zero if it is not a time
		all = append(all, cloud.Image{
			Tag: t, State: snapshotStates[one.Status], Reason: one.Status, Finished: d.Baked,
			BakedImage: driver.BakedImage{ID: one.ID, Name: d.Name, Key: d.Key, Base: d.Base, Arch: "amd64", Created: created, SizeGiB: one.Size / (1 << 30)},
		})
	}
	return all, err
}

// FinishImage changes a snapshot's description.
func (s *snapshots) FinishImage(ctx context.Context, i cloud.Image, key string) error {
	text, err := json.Marshal(description{Words: strings.Join(i.Tag.Words(), " "), Name: i.Name, Key: key, Base: i.Base, Baked: true})
	if err != nil {
		return err
	}
	return s.client.describeSnapshot(ctx, i.ID, string(text))
}

// DeleteImage deletes a snapshot.
func (s *snapshots) DeleteImage(ctx context.Context, i cloud.Image) error {
	return s.client.deleteSnapshot(ctx, i.ID)
}

func snapshotPath(id string) string { return "/snapshots/" + url.PathEscape(id) }

func (c *client) snapshots(ctx context.Context) (all []snapshot, err error) {
	for s, err := range pages(ctx, c, "/snapshots", "snapshots", url.Values{}, func(s snapshot) bool { return s.ID != "" }) {
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// snapshot returns one snapshot.
func (c *client) snapshot(ctx context.Context, id string) (snapshot, error) {
	var out struct {
		Snapshot snapshot `json:"snapshot"`
	}
	err := c.rest.Do(ctx, "GET", snapshotPath(id), nil, &out)
	if err == nil && out.Snapshot.ID != id {
		err = odd("GET", snapshotPath(id), "the answer is about %q", out.Snapshot.ID)
	}
	return out.Snapshot, err
}

// createSnapshot is not repeated if it may have taken effect.
func (c *client) createSnapshot(ctx context.Context, machine, description string) (string, error) {
	var out struct {
		Snapshot snapshot `json:"snapshot"`
	}
	err := c.rest.Do(ctx, "POST", "/snapshots", map[string]string{"instance_id": machine, "description": description}, &out)
	if err == nil && out.Snapshot.ID == "" {
		err = odd("POST", "/snapshots", "the snapshot has no id")
	}
	return out.Snapshot.ID, err
}

func (c *client) describeSnapshot(ctx context.Context, id, description string) error {
	return c.rest.Do(ctx, "PUT", snapshotPath(id), map[string]string{"description": description}, nil, rest.Idempotent)
}

func (c *client) deleteSnapshot(ctx context.Context, id string) error {
	return c.rest.Do(ctx, "DELETE", snapshotPath(id), nil, nil)
}

// startFrom makes a create start from a snapshot, if it is still there.
func (a *api) startFrom(ctx context.Context, in *createRequest, id string) error {
	s, err := a.client.snapshot(ctx, id)
	if _, kind := classify("", err); kind == driver.ErrNotFound || err == nil && s.Status != "complete" {
		return fmt.Errorf("%w: there is no snapshot %s any more", driver.ErrNotFound, id)
	}
	if err != nil {
		return &driver.Error{Kind: driver.ErrNoCapacity, Err: fmt.Errorf("no machine was requested: %w", err)}
	}
	in.OSID, in.ImageID, in.SnapshotID = 0, "", id
	return nil
}
