//go:build unix

package colab_test

import (
	"testing"

	"github.com/gputrain/gputrain/providers/internal/readme"
)

func TestReadme(t *testing.T) {
	readme.Check(t, newNotebook(t, t4).config())
}
