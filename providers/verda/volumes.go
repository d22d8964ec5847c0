package verda

import (
	"context"
	"slices"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// osSuffix ends the name of a machine's system volume.
const osSuffix = "-os"

// A leftover is a volume that is billed without a machine, and whose it was.
type leftover struct {
	volume
	tag cloud.Tag
}

// unbilled are the states of volumes that go with a machine, or are gone.
var unbilled = []string{"attached", "attaching", "deleted", "deleting", "canceled", "canceling"}

// leftovers returns the volumes that the machines of a pool, or of all pools, have left.
// What is in the trash is billed for four days more.
func (v *verda) leftovers(ctx context.Context, poolID string) ([]leftover, error) {
	all, err := v.client.volumes(ctx)
	if err != nil {
		return nil, err
	}
	var left []leftover
	for _, vol := range all {
		inTrash := vol.Status == "deleted" && !vol.Deleted
		if slices.Contains(unbilled, vol.Status) && !inTrash {
			continue
		}
		if t := ownerOfVolume(vol); t.Pool != "" && (poolID == "" || t.Pool == poolID) {
			left = append(left, leftover{vol, t})
		}
	}
	return left, nil
}

// ownerOfVolume says whose node's a volume was: by its tags, or else by its name.
func ownerOfVolume(vol volume) cloud.Tag {
	t := readTags(vol.Tags)
	if node, ok := strings.CutSuffix(vol.Name, osSuffix); ok && t.Pool == "" {
		t = cloud.FromName(node)
		t.Created = moment(vol.CreatedAt)
	}
	return t
}

// Shared returns SSH keys, and the volumes that were left.
func (v *verda) Shared(ctx context.Context, poolID string) ([]gputrain.Resource, error) {
	resources, err := v.keys().Resources(ctx, poolID)
	if err != nil {
		return nil, err
	}
	left, err := v.leftovers(ctx, poolID)
	for _, l := range left {
		r := l.tag.Resource(providerName, "volume", l.ID)
		r.Name, r.Region, r.HourlyUSD = l.Name, l.Location, usd(l.HourlyCost, l.Currency)
		resources = append(resources, r)
	}
	return resources, err
}
