package gcp

import (
	"testing"

	"github.com/gputrain/gputrain/providers/internal/readme"
)

func TestReadme(t *testing.T) {
	cfg := startFake(t).config()
	cfg.ServiceAccount = "node@p.iam.gserviceaccount.com"
	readme.Check(t, cfg)
}
