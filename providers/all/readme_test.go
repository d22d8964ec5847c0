package all_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/gputrain/gputrain/providers/all"
	"github.com/gputrain/gputrain/providers/internal/readme"
)

// Each provider's own tests check the content of its row.
func TestReadmeHasEveryProvider(t *testing.T) {
	if got := slices.Sorted(maps.Keys(readme.Table(t))); !slices.Equal(got, all.Names()) {
		t.Errorf("README's table has %q, and there are %q", got, all.Names())
	}
}
