//go:build linux

package container

import (
	"testing"

	"github.com/gputrain/gputrain/providers/internal/readme"
)

func TestReadme(t *testing.T) {
	onEngines(t, func(t *testing.T, binary string) { readme.Check(t, Config{Binary: binary}) })
}
