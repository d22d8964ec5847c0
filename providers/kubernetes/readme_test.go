package kubernetes

import (
	"testing"

	"github.com/gputrain/gputrain/providers/internal/readme"
)

func TestReadme(t *testing.T) { readme.Check(t, startFake(t).config()) }
