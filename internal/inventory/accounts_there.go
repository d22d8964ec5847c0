package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

// AccountsThere checks that the driver has every account in which the pool may have something.
func AccountsThere(ctx context.Context, provider string, d driver.Driver, snap *ledger.Snapshot) error {
	have := d.Capabilities().Accounts
	if len(have) == 0 {
		return nil
	}
	missing, ids := map[string]bool{}, []string{}
	for _, row := range snap.Rows {
		if row.Member == "" || row.State == ledger.Gone || have[row.Member] != nil {
			continue
		}
		missing[row.Member] = true
		if row.Kind == "machine" && row.ID != "" {
			ids = append(ids, row.ID)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, why := d.Describe(ctx, ids...) // the error has the reason for a missing account
	return &driver.Error{
		Provider: provider, Op: "attach", Kind: driver.ErrInvalid, Err: errors.Join(fmt.Errorf(
			"pool %s has something at %s, and that is none of %s", snap.Pool, strings.Join(slices.Sorted(maps.Keys(missing)), " and "), strings.Join(slices.Sorted(maps.Keys(have)), ", ")), why),
		Hint: "configure the provider as it was",
	}
}
