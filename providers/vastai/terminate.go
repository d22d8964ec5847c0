package vastai

import (
	"context"
	"slices"
	"strconv"

	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// From bulkFrom on, instances are ended by one call: the API requires three seconds between two
// calls that end one each.
const bulkFrom = 4

// End destroys an instance. A stopped one would still be billed for its disk.
func (p *provider) End(ctx context.Context, id string) error {
	err := p.client.destroy(ctx, id)
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.noteOf(id).ended = true
	}
	return err
}

// EndAll destroys many instances by one call. The next call ends the remaining ones one by one.
func (p *provider) EndAll(ctx context.Context, ids []string) []error {
	many := p.endMany(ctx, ids)
	errs := make([]error, len(ids))
	for i, id := range ids {
		switch {
		case !isID(id): // no such instance can exist
		case slices.Contains(many, id):
			errs[i] = cloud.ErrUnproven
		default:
			errs[i] = p.End(ctx, id)
		}
	}
	return errs
}

// endMany returns the instances that the API has agreed to end by one call.
func (p *provider) endMany(ctx context.Context, ids []string) (many []string) {
	var numbers []int64
	p.mu.Lock()
	for _, id := range ids {
		if isID(id) && !p.noteOf(id).bulk {
			n, _ := strconv.ParseInt(id, 10, 64)
			many, numbers = append(many, id), append(numbers, n)
		}
	}
	p.mu.Unlock()
	if len(many) < bulkFrom || p.client.destroyAll(ctx, numbers) != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range many {
		p.noteOf(id).bulk = true
	}
	return many
}
