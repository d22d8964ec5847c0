package verda

import (
	"context"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// osSuffix ends the name of a machine's system volume.
const osSuffix = "-os"

// A leftover is a volume that is billed without a machine, and its owner.
type leftover struct {
	volume
	tag pooltag.Tag
}

// unbilled are the states of volumes that belong to a machine, or are gone.
var unbilled = []string{"attached", "attaching", "deleted", "deleting", "canceled", "canceling"}

// leftovers returns the volumes that the machines of a pool, or of all pools, have left behind.
// The trash is billed for four more days.
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

// ownerOfVolume returns the owner of a volume: by its tags, or else by its name.
func ownerOfVolume(vol volume) pooltag.Tag {
	t := readTags(vol.Tags)
	if node, ok := strings.CutSuffix(vol.Name, osSuffix); ok && t.Pool == "" {
		t = pooltag.FromName(node)
		t.Created = moment(vol.CreatedAt)
	}
	return t
}

// Shared returns SSH keys and leftover volumes.
func (v *verda) Shared(ctx context.Context, poolID string) ([]driver.Resource, error) {
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
