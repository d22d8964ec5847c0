package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain/internal/test/texts"
	"github.com/gputrain/gputrain/observe"
)

// FuzzReport writes reports and a bundle of a file that anyone may have sent.
func FuzzReport(f *testing.F) {
	f.Add([]byte(texts.Events))
	f.Fuzz(func(t *testing.T, file []byte) {
		path := filepath.Join(t.TempDir(), "events")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		run, err := observe.Read(path)
		if err != nil {
			return
		}
		checkHTML(t, written(t, WriteHTML, run))
		md := written(t, WriteMarkdown, run)
		checkControls(t, "Markdown", md)
		checkMarkdown(t, md)
		if text := written(t, WriteJSON, run); !json.Valid([]byte(text)) {
			t.Errorf("no JSON: %q", text)
		}
		if c, ok := findCause(run); ok {
			c.text(true)
		}
	})
}
