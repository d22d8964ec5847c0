package all_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/gputrain/gputrain/providers/all"
	"github.com/gputrain/gputrain/providers/internal/readme"
)

// That a row is true its provider's own tests see.
func TestReadmeHasEveryProvider(t *testing.T) {
	if got := slices.Sorted(maps.Keys(readme.Table(t))); !slices.Equal(got, all.Names()) {
		t.Errorf("README's table has %q, and there are %q", got, all.Names())
	}
}
