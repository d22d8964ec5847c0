// Package trainimage names the image in which training on several nodes is tested, with PyTorch and Open MPI.
package trainimage

import (
	"os"
	"os/exec"
	"testing"
)

// Image is the image that scripts/train-image makes.
const Image = "gputrain-train:bookworm"

// Require skips a test without Docker and the image, or in a short run. If GPUTRAIN_REQUIRE_DOCKER is set, it fails
// instead of being skipped for what is missing.
func Require(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts PyTorch or Open MPI in containers")
	}
	if err := exec.Command("docker", "image", "inspect", Image).Run(); err != nil {
		const missing = "no Docker with " + Image + " here: scripts/train-image makes it"
		if os.Getenv("GPUTRAIN_REQUIRE_DOCKER") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
}
