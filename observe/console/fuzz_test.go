package console

import (
	"os"
	"path/filepath"
	"testing"
	"unicode"

	"github.com/gputrain/gputrain/internal/test/texts"
	"github.com/gputrain/gputrain/observe"
)

// FuzzFrame shows a file that anyone may have sent.
func FuzzFrame(f *testing.F) {
	f.Add([]byte(texts.Events), uint8(80), uint8(24))
	f.Fuzz(func(t *testing.T, file []byte, columns, rows uint8) {
		path := filepath.Join(t.TempDir(), "events")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		run, err := observe.Read(path)
		if err != nil {
			return
		}
		d := display{columns: max(int(columns), 1), rows: max(int(rows), 3), unicode: true}
		block := frame(run, pacesOf(run), d)
		if len(block) > max(d.rows/3, 1) {
			t.Errorf("%d rows of %d", len(block), d.rows)
		}
		for _, r := range block {
			if w := widths.StringWidth(r.text); w > d.columns {
				t.Errorf("%q is %d wide, of %d", r.text, w, d.columns)
			}
			for _, c := range r.text {
				if unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) {
					t.Errorf("%q has %U", r.text, c)
				}
			}
		}
	})
}
