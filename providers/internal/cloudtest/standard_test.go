package cloudtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// standardTests are the tests that each cloud has, with the clouds that leave one out, and why.
var standardTests = map[string]map[string]string{
	"TestConformance": nil,
	"TestReadme":      nil,
	"TestPool":        nil,
	// TestPool's pool, while calls fail.
	"TestPoolUnderFaults": nil,
	"TestDetach":          nil,
	"TestStrangers":       nil,
	"TestErrors":          nil,
	"TestConfigFaults":    nil,
	"TestGolden":          nil,
	"TestOddRows":         {"aws": itsSDK, "gcp": itsSDK, "kubernetes": itsSDK},
	"TestKey": {
		"aws":        "there are several kinds of credentials: TestCredentials",
		"gcp":        "there are several kinds of credentials: TestCredentials",
		"kubernetes": "the credential is in a file: TestKubeconfig",
	},
	"TestGuardian": {
		"aws": itself, "kubernetes": itself, "runpod": itself, "vastai": itself,
	},
	"TestBaking":          noImages,
	"TestBakeUnderFaults": noImages,
}

const itsSDK = "a client of the cloud's own reads its answers"

const itself = "a machine ends itself when its program is gone"

var noImages = map[string]string{
	"jarvislabs": noBaker, "kubernetes": noBaker, "lambda": noBaker, "massedcompute": noBaker, "novita": noBaker, "runpod": noBaker,
	"scaleway": noBaker, "tensordock": noBaker, "vastai": noBaker, "verda": noBaker,
}

const noBaker = "its driver makes no images"

var clouds = []string{
	"aws", "gcp", "hyperstack", "jarvislabs", "kubernetes", "lambda", "massedcompute", "novita", "runpod", "scaleway", "tensordock", "vastai", "verda", "vultr",
}

// Each cloud has each standard test, or a reason.
func TestStandardTests(t *testing.T) {
	test := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	for _, cloud := range clouds {
		files, err := filepath.Glob(filepath.Join("..", "..", cloud, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", cloud, files, err)
		}
		var has []string
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range test.FindAllStringSubmatch(string(text), -1) {
				has = append(has, m[1])
			}
		}
		for name, without := range standardTests {
			if why, out := without[cloud]; slices.Contains(has, name) == out {
				t.Errorf("%s: %s: it is left out: %v (%q)", cloud, name, out, why)
			}
		}
	}
}
