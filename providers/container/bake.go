package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const (
	// bakedRepository holds the finished images of prepared nodes, and bakingRepository those that
	// are not finished, by the IDs of their pools.
	bakedRepository  = "localhost/gputrain/baked"
	bakingRepository = "localhost/gputrain/baking"
	labelBaked       = labelPrefix + "baked" // the key
	labelBakedName   = labelPrefix + "baked.name"
	labelBakedBase   = labelPrefix + "baked.base"
	labelBakedAt     = labelPrefix + "baked.created"
)

var _ driver.Baker = (*containerDriver)(nil)

// A bakery makes images of nodes.
type bakery struct {
	cfg     Config
	engine  *engine
	images  *images
	account string
}

func (d *containerDriver) bakery() *bakery {
	return &bakery{d.cfg, d.engine, &d.images, d.facts.account}
}

// cannotBake returns why this driver makes no images, or nil.
func (k *bakery) cannotBake() error {
	switch {
	case k.engine.dialect != docker && k.engine.dialect != podman:
		return &driver.Error{Kind: driver.ErrUnsupported, Err: fmt.Errorf("%s cannot change the labels of an image that it makes of a container", k.engine.dialect), Hint: "use Docker or podman"}
	case len(k.cfg.RunArgs) > 0:
		return &driver.Error{Kind: driver.ErrUnsupported, Err: errors.New("RunArgs may give a node secrets, which would be in the image"), Hint: "leave RunArgs empty"}
	}
	return nil
}

// Bake makes an image of a node by "commit". It is finished by its name: until then it has one in
// bakingRepository.
func (d *containerDriver) Bake(ctx context.Context, req driver.Bake) (driver.BakedImage, error) {
	b, err := d.bakery().bake(ctx, req)
	return b, fail("bake", err)
}

func (k *bakery) bake(ctx context.Context, req driver.Bake) (driver.BakedImage, error) {
	if err := errors.Join(checkPool(req.Pool.ID), k.cannotBake()); err != nil {
		return driver.BakedImage{}, err
	}
	reports, err := k.engine.inspect(ctx, []string{req.Instance.ID})
	if err != nil {
		return driver.BakedImage{}, err
	}
	if len(reports) != 1 {
		return driver.BakedImage{}, fmt.Errorf("%w: there is no container %s", driver.ErrNotFound, req.Instance.ID)
	}
	base, err := k.images.localBase(ctx)
	if err != nil {
		return driver.BakedImage{}, err
	}
	// The node's own host key, and what lets the pool log in.
	if _, err := k.engine.run(ctx, "exec", "--user", "0:0", reports[0].id, "sh", "-c", "rm -rf /run/gputrain"); err != nil {
		return driver.BakedImage{}, err
	}
	unfinished := bakingRepository + ":" + req.Pool.ID
	if err := req.Pool.Record(driver.Resource{Kind: "image", Name: unfinished, HourlyUSD: driver.USD(0)}); err != nil {
		return driver.BakedImage{}, err
	}
	if _, err := k.engine.run(ctx, k.commitArgs(req, reports[0], base, unfinished, time.Now())...); err != nil {
		return driver.BakedImage{}, err
	}
	if ctx.Err() != nil {
		return driver.BakedImage{}, context.Cause(ctx)
	}
	// From here on the image may belong to no pool: it is returned or removed, whatever the caller waits for.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	finished := k.bakedName(req.Key, base) // a later image of the same content takes the name
	if _, err := k.engine.run(ctx, "tag", unfinished, finished); err != nil {
		return driver.BakedImage{}, err
	}
	var all []bakedReport
	if _, err = k.engine.run(ctx, "image", "rm", unfinished); err == nil || isMissingImage(err) {
		all, err = k.bakedImages(ctx, bakedRepository)
	}
	if err != nil {
		_, left := k.engine.run(ctx, "image", "rm", finished)
		return driver.BakedImage{}, errors.Join(err, left)
	}
	i := slices.IndexFunc(all, func(b bakedReport) bool { return b.ID == finished })
	if i < 0 {
		return driver.BakedImage{}, fmt.Errorf("the engine lists no image %s, which it has just made", finished)
	}
	return all[i].BakedImage, nil
}

// commitArgs returns the arguments that make an image of a node. An image passes the labels of its
// container on to other containers: here they are empty, except those of the image.
func (k *bakery) commitArgs(req driver.Bake, node report, base imageReport, name string, now time.Time) []string {
	args := []string{"commit"}
	label := func(name, value string) {
		args = append(args, "--change", "LABEL "+quoteLabel(name)+"="+quoteLabel(value))
	}
	for _, name := range sortedKeys(node.labels) {
		label(name, "")
	}
	label(labelBaked, req.Key)
	label(labelBakedName, req.Name)
	label(labelBakedBase, base.id)
	label(labelBakedAt, now.UTC().Format(time.RFC3339))
	for _, p := range form.Pairs(pooltag.Of(req.Pool, now)) { // until the image is finished
		label(labelBaked+"."+strings.TrimPrefix(p.Key, labelPrefix), p.Value)
	}
	return append(args, "--change", `CMD ["-l"]`, node.id, name) // its entrypoint is sh, and its command named the node
}

// quoteLabel writes a word of a LABEL instruction.
func quoteLabel(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "\n", " ").Replace(s) + `"`
}

// bakedName returns the name of the image with the content of key that is made of a base image, for this driver's user.
func (k *bakery) bakedName(key string, base imageReport) string {
	sum := sha256.Sum256([]byte(key + "\n" + base.id + "\n" + k.cfg.Platform + "\n" + k.cfg.user()))
	return bakedRepository + ":" + hex.EncodeToString(sum[:16])
}

// localBase returns the image that nodes start from if the engine has it. It pulls none.
func (m *images) localBase(ctx context.Context) (imageReport, error) {
	names := []string{m.image}
	if m.image == "" {
		names = []string{DefaultImage, HomeMadeImage}
	}
	for _, name := range names {
		if r, there, err := m.localImage(ctx, name); there || err != nil {
			return r, err
		}
	}
	return imageReport{}, fmt.Errorf("%w: the engine does not have the image %s", driver.ErrNotFound, strings.Join(names, " or "))
}

// startFromBaked makes a launch of the offer start from an image with the content of key, if there is one.
func (k *bakery) startFromBaked(ctx context.Context, o *driver.Offer, key string) error {
	if key == "" || k.cannotBake() != nil {
		return nil
	}
	base, err := k.images.localBase(ctx)
	if errors.Is(err, driver.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	all, err := k.bakedImages(ctx, k.bakedName(key, base))
	for _, b := range all {
		o.StartFrom(b.BakedImage)
	}
	return err
}

// A bakedReport is an image of a prepared node.
type bakedReport struct {
	driver.BakedImage
	pool driver.Resource // of the pool that it belonged to until it was finished
}

// bakedImages returns the images of a repository, or that of a name.
func (k *bakery) bakedImages(ctx context.Context, reference string) ([]bakedReport, error) {
	if k.engine.dialect != docker && k.engine.dialect != podman {
		return nil, nil
	}
	out, err := k.engine.run(ctx, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", reference)
	if err != nil {
		return nil, err
	}
	var all []bakedReport
	for _, name := range strings.Fields(string(out)) {
		repository, _, _ := strings.Cut(reference, ":")
		if rest, _ := strings.CutPrefix(name, "localhost/"); !strings.HasPrefix(name, repository+":") || rest == name {
			return nil, fmt.Errorf("%s image ls: cannot read the answer: %.80q", k.engine.dialect, name)
		}
		b, err := k.inspectBaked(ctx, name)
		if isMissingImage(err) {
			continue // it was removed just now
		} else if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

func (k *bakery) inspectBaked(ctx context.Context, name string) (bakedReport, error) {
	out, err := k.engine.run(ctx, "image", "inspect", name)
	if err != nil {
		return bakedReport{}, err
	}
	var reports []struct {
		Architecture string
		Size         float64
		Config       struct{ Labels map[string]string }
	}
	if err := json.Unmarshal(out, &reports); err != nil || len(reports) != 1 {
		return bakedReport{}, fmt.Errorf("%s image inspect: cannot read the answer: %.80q", k.engine.dialect, out)
	}
	labels := reports[0].Config.Labels
	created, _ := time.Parse(time.RFC3339, labels[labelBakedAt]) // zero if it is not a time
	owner := map[string]string{}
	for k, v := range labels {
		if rest, ok := strings.CutPrefix(k, labelBaked+"."); ok {
			owner[labelPrefix+rest] = v
		}
	}
	return bakedReport{
		BakedImage: driver.BakedImage{
			Provider: providerName, Account: k.account, ID: name, Name: labels[labelBakedName], Key: labels[labelBaked], Base: labels[labelBakedBase],
			Arch: reports[0].Architecture, Created: created, SizeGiB: reports[0].Size / gib, HourlyUSD: driver.USD(0),
		},
		pool: resource("image", name, name, owner),
	}, nil
}

// unfinished returns the images that are not finished of a pool, or of all pools.
func (k *bakery) unfinished(ctx context.Context, poolID string) ([]driver.Resource, error) {
	reference := bakingRepository
	switch {
	case driver.IsBake(poolID):
		reference += ":" + poolID
	case poolID != "":
		return nil, nil
	}
	all, err := k.bakedImages(ctx, reference)
	var resources []driver.Resource
	for _, b := range all {
		resources = append(resources, b.pool)
	}
	return resources, err
}

// BakedImages lists the finished images.
func (d *containerDriver) BakedImages(ctx context.Context) ([]driver.BakedImage, error) {
	all, err := d.bakery().bakedImages(ctx, bakedRepository)
	if err != nil {
		return nil, fail("list baked images", err)
	}
	images := []driver.BakedImage{}
	for _, b := range all {
		images = append(images, b.BakedImage)
	}
	return images, nil
}

// DeleteBaked removes images. The engine keeps the layers that running nodes use.
func (d *containerDriver) DeleteBaked(ctx context.Context, ids ...string) error {
	var errs []error
	for _, id := range ids {
		if !strings.HasPrefix(id, bakedRepository+":") {
			errs = append(errs, fail("delete a baked image", fmt.Errorf("%w: %q is not the ID of a baked image", driver.ErrInvalid, id)))
			continue
		}
		errs = append(errs, fail("delete a baked image", d.bakery().removeImage(ctx, id)))
	}
	return errors.Join(errs...)
}

func (k *bakery) removeImage(ctx context.Context, name string) error {
	// Of an image that a container uses, only the name is removed, which force allows.
	if _, err := k.engine.run(ctx, "image", "rm", "--force", name); err != nil && !isMissingImage(err) {
		return err
	}
	return nil
}
