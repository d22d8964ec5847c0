package status

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"unicode"

	"github.com/gputrain/gputrain/internal/test/texts"
	"github.com/gputrain/gputrain/observe"
)

// FuzzPage shows a file that anyone may have sent: as JSON, as the page gets it, and as metrics.
func FuzzPage(f *testing.F) {
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
		for _, p := range []part{{}, {summary: true}} {
			text := written(t, run, p)
			if !json.Valid(text) {
				t.Errorf("no JSON: %q", text)
			}
			for _, c := range string(text) {
				if unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) {
					t.Errorf("it has %U: %q", c, text)
				}
			}
		}
		h := newHandler(newFake(run))
		h.feed.view(updatePause)
		scrape(t, h)
	})
}
