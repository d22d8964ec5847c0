package trainimage

import (
	"os"
	"strings"
	"testing"
)

// TestImage checks that the script makes the image that tests ask for.
func TestImage(t *testing.T) {
	script, err := os.ReadFile("../../../scripts/train-image")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(script), "\nimage="+Image+" #") {
		t.Errorf("scripts/train-image does not make %s", Image)
	}
}
