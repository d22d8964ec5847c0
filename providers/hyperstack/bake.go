package hyperstack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// A snapshot becomes an image by a call of its own, and is deleted with it. So a snapshot of a pool is an
// image in the making, and finished once it is an image. Both have the same name, which is the image's ID.
type snapshot struct {
	ID          int      `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Labels      []string `json:"labels"`
	Status      string   `json:"status"`
	IsImage     bool     `json:"is_image"`
	Size        float64  `json:"size"` // GB
	Created     string   `json:"created_at"`
}

// A content is the description of a snapshot, in JSON.
type content struct {
	Key  string `json:"key"`
	Base string `json:"base"`
	Arch string `json:"arch,omitempty"`
}

var _ driver.Baker = (*hyperstackDriver)(nil)

// Bake makes a snapshot of a machine, and an image of that.
func (d *hyperstackDriver) Bake(ctx context.Context, req driver.Bake) (driver.BakedImage, error) {
	return d.p.bakery().Bake(ctx, req)
}

// BakedImages lists the finished images.
func (d *hyperstackDriver) BakedImages(ctx context.Context) ([]driver.BakedImage, error) {
	return d.p.bakery().BakedImages(ctx)
}

// DeleteBaked deletes images with their snapshots.
func (d *hyperstackDriver) DeleteBaked(ctx context.Context, ids ...string) error {
	return d.p.bakery().DeleteBaked(ctx, ids...)
}

func (p *provider) bakery() *cloud.Bakery {
	return &cloud.Bakery{Provider: providerName, Images: &snapshots{p.cfg, p.api}, Capabilities: p.Capabilities, Fail: func(op string, err error) error {
		return cloud.Fail(providerName, op, err, classify)
	}}
}

// base names the image that machines start from, as the configuration does: the newest Ubuntu changes.
func base(c Config) func(driver.Offer) string {
	return func(driver.Offer) string { return cmp.Or(c.Image, "the newest Ubuntu") + " of " + c.SSHUser }
}

// snapshots are those of the account that gputrain has made.
type snapshots struct {
	cfg Config //secretvet:ignore without the key
	api *client
}

// MakeImage makes a snapshot of a machine, which runs on.
func (s *snapshots) MakeImage(ctx context.Context, order cloud.ImageOrder) (string, error) {
	if len(order.Name) > maxName {
		return "", fmt.Errorf("%w: the name %s is longer than %d characters", driver.ErrInvalid, order.Name, maxName)
	}
	text, err := json.Marshal(content{Key: order.Key, Base: base(s.cfg)(order.Instance.Offer), Arch: order.Instance.Offer.Arch})
	if err != nil {
		return "", err
	}
	if err := s.api.createSnapshot(ctx, order.Instance.ID, order.Name, string(text), order.Tag.Words()); err != nil {
		return "", err
	}
	return order.Name, nil
}

// failedStatus matches the states of a snapshot that failed. The API publishes no list of states.
var failedStatus = regexp.MustCompile(`(?i)error|fail`)

// Images lists the snapshots that have gputrain's labels. The list of images has the regions.
func (s *snapshots) Images(ctx context.Context) ([]cloud.Image, error) {
	found, err := s.api.snapshots(ctx)
	if err != nil {
		return nil, err
	}
	var all []cloud.Image
	for _, one := range found {
		t := pooltag.FromWords(one.Labels)
		var c content
		if json.Unmarshal([]byte(one.Description), &c) != nil || t.Pool == "" {
			continue
		}
		created, _ := time.Parse("2006-01-02T15:04:05", one.Created[:min(len(one.Created), 19)]) // zero if it is not a time
		i := cloud.Image{Tag: t, State: cloud.ImageMade, Reason: one.Status, Finished: one.IsImage, BakedImage: driver.BakedImage{
			ID: one.Name, Name: one.Name, Key: c.Key, Base: c.Base, Arch: c.Arch, Created: created, SizeGiB: one.Size,
		}}
		if failedStatus.MatchString(one.Status) {
			i.State = cloud.ImageFailed
		}
		all = append(all, i)
	}
	if !slices.ContainsFunc(all, func(i cloud.Image) bool { return i.Finished }) {
		return all, nil
	}
	images, err := s.api.ownImages(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		at := slices.IndexFunc(images, func(im image) bool { return im.Name == all[i].Name })
		switch {
		case !all[i].Finished:
		case at >= 0:
			all[i].Region = images[at].Region
		default: // the image is not listed yet, or not any more: no offer starts from it
			all[i].Region, all[i].State = "unknown", cloud.ImageMaking
		}
	}
	return all, nil
}

// FinishImage makes an image of a snapshot. The API refuses that while the snapshot is being made, in words
// that are not documented, so a refusal of no known kind is repeated until ctx ends.
func (s *snapshots) FinishImage(ctx context.Context, i cloud.Image, _ string) error {
	for {
		one, err := s.find(ctx, i.Name)
		if err == nil && (one.IsImage || failedStatus.MatchString(one.Status)) {
			return nil // the list reports the rest
		}
		if err == nil {
			err = s.api.createImage(ctx, one.ID, one.Name, one.Labels)
		}
		e, refused := cloud.Answered(err)
		if err == nil || !refused || e.Status != http.StatusBadRequest && e.Status != http.StatusConflict && e.Status != http.StatusNotAcceptable {
			return err
		}
		if _, kind := classify("bake", err); kind != nil || !retry.Sleep(ctx, 5*cloud.Second) {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// DeleteImage deletes a snapshot, and with it its image.
func (s *snapshots) DeleteImage(ctx context.Context, i cloud.Image) error {
	one, err := s.find(ctx, i.Name)
	if err != nil {
		return err
	}
	return s.api.deleteSnapshot(ctx, one.ID)
}

func (s *snapshots) find(ctx context.Context, name string) (snapshot, error) {
	all, err := s.api.snapshots(ctx)
	if err != nil {
		return snapshot{}, err
	}
	i := slices.IndexFunc(all, func(one snapshot) bool { return one.Name == name && pooltag.FromWords(one.Labels).Pool != "" })
	if i < 0 {
		return snapshot{}, fmt.Errorf("%w: there is no snapshot %s", driver.ErrNotFound, name)
	}
	return all[i], nil
}

// bakedImage returns the name of a baked image if the region still has it.
func (p *provider) bakedImage(ctx context.Context, region, name string) (string, error) {
	images, err := p.api.ownImages(ctx)
	if err != nil {
		return "", &driver.Error{Kind: driver.ErrNoCapacity, Err: fmt.Errorf("no machine was requested: %w", err)}
	}
	if !slices.ContainsFunc(images, func(i image) bool { return i.Name == name && i.Region == region }) {
		return "", fmt.Errorf("%w: %s has no image %s any more", driver.ErrNotFound, region, name)
	}
	return name, nil
}

func (c *client) snapshots(ctx context.Context) ([]snapshot, error) {
	return pages(func(s snapshot) int { return s.ID }, func(page int) ([]snapshot, int, error) {
		var out struct {
			Snapshots *[]snapshot `json:"snapshots"`
			Count     int         `json:"count"`
		}
		err := c.get(ctx, "/core/snapshots", pageQuery(page, ""), &out)
		return listed(out.Snapshots, out.Count, "snapshots", err)
	})
}

func (c *client) createSnapshot(ctx context.Context, machine, name, description string, labels []string) error {
	if err := checkID(machine); err != nil {
		return err
	}
	in := map[string]any{"name": name, "description": description, "labels": labels}
	return c.rest.Do(ctx, http.MethodPost, "/core/virtual-machines/"+machine+"/snapshots", in, nil)
}

func (c *client) createImage(ctx context.Context, snapshot int, name string, labels []string) error {
	return c.rest.Do(ctx, http.MethodPost, "/core/snapshots/"+strconv.Itoa(snapshot)+"/image", map[string]any{"name": name, "labels": labels}, nil)
}

func (c *client) deleteSnapshot(ctx context.Context, id int) error {
	return c.rest.Do(ctx, http.MethodDelete, "/core/snapshots/"+strconv.Itoa(id), nil, nil)
}

// ownImages returns the account's images of all regions.
func (c *client) ownImages(ctx context.Context) ([]image, error) {
	return c.imagesBy(ctx, url.Values{"include_public": {"false"}})
}
