package otelgputrain

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gputrain/gputrain/internal/test/texts"
	"github.com/gputrain/gputrain/observe"
)

// FuzzLabels exports entries that anyone may have sent.
func FuzzLabels(f *testing.F) {
	f.Add([]byte(texts.Events))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, s := &recorded{}, newSink()
		for line := range bytes.SplitSeq(file, []byte("\n")) {
			var e observe.Entry
			if json.Unmarshal(line, &e) != nil || e.Event == nil && e.Line == nil {
				continue
			}
			e.Seq = int64(len(r.all) + 1)
			r.all = append(r.all, e)
		}
		e := start(r, s.Config)
		for e.reached() < int64(len(r.all)) {
			<-tick()
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		for _, text := range s.texts(t) {
			if !utf8.ValidString(text) || len(text) > 2*longest || strings.ContainsFunc(text, func(c rune) bool {
				return unicode.IsControl(c) && c != '\n' && c != '\t' || unicode.Is(unicode.Bidi_Control, c)
			}) {
				t.Errorf("exported %d bytes: %.200q", len(text), text)
			}
		}
	})
}
