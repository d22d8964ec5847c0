package gputrain_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

// Where the ledger cannot be kept, nothing is made, and the error says what to do.
func TestOpenWithoutAPlaceForTheLedger(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "file")
	writeText(t, file, "no folder")
	_, err := gputrain.Open(t.Context(), local.Config{Dir: dir}, gputrain.Spec{}, gputrain.WithStateDir(filepath.Join(file, "state")))
	if !errors.Is(err, gputrain.ErrLedger) || !strings.Contains(err.Error(), "WithStateDir") {
		t.Errorf("got %v", err)
	}
	wantEmpty(t, dir)
}
