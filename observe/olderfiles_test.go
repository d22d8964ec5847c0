package observe

import (
	"encoding/json"
	"testing"
)

// An older file has a training's attempt under another name.
func TestOlderFilesHaveEpochs(t *testing.T) {
	for _, line := range []string{
		`{"seq":1,"event":{"kind":"training","state":"running","time":"2026-11-28T17:00:05Z","pool":"p","node":-1,"name":"g","epoch":3}}`,
		`{"seq":1,"event":{"kind":"training","state":"running","time":"2026-11-28T17:00:05Z","pool":"p","node":-1,"name":"g","attempt":3}}`,
	} {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Event == nil || e.Event.Attempt != 3 {
			t.Errorf("%s: %+v, %v", line, e.Event, err)
		}
	}
}
