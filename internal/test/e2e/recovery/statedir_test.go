package recovery

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/local"
)

// If the ledger cannot be written, nothing is created, and the error has advice.
func TestOpenWithoutAPlaceForTheLedger(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "file")
	e2etest.WriteText(t, file, "no folder")
	_, err := gputrain.Open(t.Context(), local.Config{Dir: dir}, gputrain.Spec{}, gputrain.WithStateDir(filepath.Join(file, "state")))
	if !errors.Is(err, gputrain.ErrLedger) || !strings.Contains(err.Error(), "WithStateDir") {
		t.Errorf("got %v", err)
	}
	e2etest.WantEmpty(t, dir)
}
