package vastai

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// bulkFrom is how many instances are ended by one call: the API wants three seconds
// between two that end one each.
const bulkFrom = 4

// Terminate destroys the instances: a stopped one would go on being billed for its disk.
func (d *driver) Terminate(ctx context.Context, ids ...string) error {
	var numbers []int64
	var one []string
	d.mu.Lock()
	for _, id := range ids {
		if !isID(id) {
			continue // it cannot be there
		}
		m := d.made[id]
		if m == nil {
			m = &machine{at: d.opened}
			d.made[id] = m
		}
		if m.bulk {
			one = append(one, id) // that did not end it
			continue
		}
		n, _ := strconv.ParseInt(id, 10, 64)
		numbers = append(numbers, n)
	}
	d.mu.Unlock()
	var errs []error
	if len(numbers) >= bulkFrom {
		if err := d.api.destroyAll(ctx, numbers); err == nil {
			d.mu.Lock()
			for _, n := range numbers {
				d.made[strconv.FormatInt(n, 10)].bulk = true
			}
			d.mu.Unlock()
			numbers = nil
		}
	}
	for _, n := range numbers {
		one = append(one, strconv.FormatInt(n, 10))
	}
	for _, id := range one {
		if err := d.destroy(ctx, id); err != nil {
			errs = append(errs, fail("terminate", fmt.Errorf("instance %s: %w", id, err)))
		}
	}
	return errors.Join(errs...)
}

// destroy ends one instance. That it is not known does not count as ended: it may be too
// new, and Describe has to say that it is gone.
func (d *driver) destroy(ctx context.Context, id string) error {
	err := d.api.destroy(ctx, id)
	if err != nil && !isGone(err) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.made[id]; m != nil {
		m.ended, m.absent = m.ended || err == nil, m.absent || err != nil
	}
	return nil
}
