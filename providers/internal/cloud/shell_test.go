package cloud_test

import (
	"testing"

	"github.com/gputrain/gputrain/providers/internal/cloud"
)

func TestScript(t *testing.T) {
	text := "#!/bin/sh\n# what it is\n\nif true; then\n\t# why\n\techo '#' # not first\nfi"
	if got := cloud.Script(text); got != "if true; then\n\techo '#' # not first\nfi" {
		t.Errorf("%q", got)
	}
	if got := cloud.Quote("it's $HOME"); got != `'it'\''s $HOME'` {
		t.Errorf("%s", got)
	}
}
