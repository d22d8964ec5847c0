package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The program starts in seconds for most providers: it links the vendors' clients, which take minutes to build, only with the
// tag sdk.
func TestLinksNoVendorsClient(t *testing.T) {
	clients := func(args ...string) (found []string) {
		cmd := exec.Command("go", append([]string{"list", "-deps"}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for pkg := range strings.Lines(string(out)) {
			if strings.HasPrefix(pkg, "github.com/aws/") || strings.HasPrefix(pkg, "cloud.google.com/") {
				found = append(found, strings.TrimSpace(pkg))
			}
		}
		return found
	}
	if found := clients("."); len(found) > 0 {
		t.Errorf("it links %d packages of vendors' clients: %q", len(found), found[:1])
	}
	if found := clients("-tags", "sdk", "."); len(found) == 0 {
		t.Error("with the tag sdk it links no vendor's client")
	}
}
