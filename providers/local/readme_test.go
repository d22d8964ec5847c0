//go:build unix

package local_test

import (
	"testing"

	"github.com/gputrain/gputrain/providers/internal/readme"
	"github.com/gputrain/gputrain/providers/local"
)

func TestReadme(t *testing.T) { readme.Check(t, local.Config{Dir: t.TempDir()}) }
