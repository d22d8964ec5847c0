package main

import (
	"strings"
	"testing"
)

func TestRankAndTable(t *testing.T) {
	rows := []row{
		{params{Hidden: 1}, metrics{Accuracy: 0.90, Loss: 0.1}, 0},
		{params{Hidden: 2}, metrics{Accuracy: 0.97, Loss: 0.3}, 1},
		{params{Hidden: 3}, metrics{Accuracy: 0.97, Loss: 0.2}, 2},
	}
	if best := rank(rows); best.Hidden != 3 {
		t.Errorf("best is %v, want that with accuracy 0.97 and the lower loss", best)
	}
	var b strings.Builder
	if err := table(&b, rows); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 4 || strings.Fields(lines[3])[1] != "1" {
		t.Errorf("table is not sorted, best first:\n%s", b.String())
	}
}

func TestGridIsWhole(t *testing.T) {
	seen := map[params]bool{}
	for _, p := range grid() {
		seen[p] = true
	}
	if len(seen) != len(grid()) || len(seen) < 24 {
		t.Errorf("%d settings, %d of them different; want at least 24", len(grid()), len(seen))
	}
}
