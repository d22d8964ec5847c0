package gputrain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const modulePath = "github.com/gputrain/gputrain"

// TestImportsGoDownOnly checks that packages import only lower layers: see CONTRIBUTING.md.
func TestImportsGoDownOnly(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Standard", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, imported := range p.Imports {
			if why := forbidden(p.ImportPath, imported); why != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, why)
			}
		}
	}
}

// sdks maps prefixes of packages, such as those of clouds' own clients, to the only package that
// may import them. So a program links only the clients of the providers that it imports.
var sdks = map[string]string{
	"cloud.google.com/": "providers/gcp", "google.golang.org/": "providers/gcp", "github.com/googleapis/": "providers/gcp",
	"github.com/aws/": "providers/aws",
	"k8s.io/":         "providers/kubernetes",

	"github.com/go-viper/": "providers/internal/byname", // small, and needed only for configuration files
}

// opensPools are the packages under providers that are for programs, or test with pools.
var opensPools = map[string]bool{"providers/providertest": true, "providers/internal/cloudtest": true, "providers/internal/readme": true}

func forbidden(from, to string) string {
	rel := func(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, modulePath), "/") }
	ours := to == modulePath || strings.HasPrefix(to, modulePath+"/")
	switch f, g := rel(from), rel(to); {
	case !ours:
		if (f == "accelerators" || f == "providers/driver/fault") && strings.Contains(to, ".") {
			return f + " is a leaf: the standard library only"
		}
		if strings.HasPrefix(f, "providers/") && strings.HasPrefix(to, "golang.org/x/crypto/ssh") {
			return "SSH is the pool's work"
		}
		for sdk, provider := range sdks {
			if strings.HasPrefix(to, sdk) && f != provider {
				return "this is for " + provider + " alone"
			}
		}
	case f == "accelerators":
		return "accelerators is a leaf"
	case f == "internal/scheduler" && g != "internal/least" && g != "internal/stack":
		return "the scheduler knows no SSH, no driver and no disk"
	case inFolder(f, "internal/test/usage"):
		// The programs of users, which may import what any program may.
	case inFolder(g, "observe") && !inFolder(f, "observe") && !strings.HasPrefix(f, "examples/"):
		return "a program that wants to watch links it, no other"
	case inFolder(f, "observe") && inFolder(g, "observe") && g != "observe" && g != "observe/internal/runjson":
		return "a view knows no other view"
	case g == "internal/fleet" && f != "":
		return "only a pool has a fleet"
	case g == "providers/driver", g == "providers/driver/fault":
		// Every package may import the contract and its errors.
	case f == "providers/driver/fault":
		return "fault is a leaf: the standard library only"
	case f == "providers/driver" && g != "accelerators" && g != "internal/printable":
		return "driver is a leaf"
	case g == "" && strings.HasPrefix(f, "providers/") && !opensPools[f]:
		return "a provider knows the contract in providers/driver, and no pool"
	case f == "" && strings.HasPrefix(g, "providers/"):
		return "root imports no provider"
	case f == "internal/test/e2etest":
		// What the end-to-end suites share uses gputrain as a user's program does.
	case g == "internal/test/e2etest":
		return "this is for tests alone"
	case strings.HasPrefix(f, "internal/") && (g == "" || strings.HasPrefix(g, "providers/")):
		return "nothing under internal imports root or a provider"
	case f == "providers/colab" && g == "providers/ssh":
		// A notebook's runtime is an adopted host and nothing else, so it shares the code for that.
	case f == "providers/slurm" && (g == "providers/ssh" || g == "internal/ssh"):
		// A cluster's API is a login node, which is a host like those of providers/ssh, and its commands.
	case strings.HasPrefix(g, "providers/internal/"), f == "providers/internal/cloudtest" && g == "providers/providertest":
		// Providers and their tests share these packages. Go itself keeps all others from importing
		// them.
	case strings.HasPrefix(f, "providers/") && strings.HasPrefix(g, "providers/") && f != "providers/all" && f != "providers/internal/byname":
		return "a provider imports no other"
	case g == "secrets/keyring" && !strings.HasPrefix(f, "examples/"):
		return "a program that wants the keyring links it, no other"
	case strings.HasPrefix(f, "providers/") && g == "internal/ssh" && f != "providers/providertest" && f != "providers/internal/cloudtest": // these act as the pool
		return "SSH is the pool's work"
	}
	return ""
}

// inFolder reports whether a package is in a folder, or below.
func inFolder(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }
