// Package crossbuild runs functions on nodes of a platform other than the program's.
package crossbuild

import (
	"log"
	"os"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// TestMain runs the tests in the root of the module, from whose sources they build.
func TestMain(m *testing.M) {
	gputrain.Init()
	if err := os.Chdir("../../../.."); err != nil {
		log.Fatal(err)
	}
	e2etest.Main(m)
}
