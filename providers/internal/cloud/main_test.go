package cloud_test

import (
	"testing"

	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestMain(m *testing.M) { cloudtest.Main(m) }
