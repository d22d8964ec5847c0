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

// TestImportsGoDownOnly keeps the layers apart: see CONTRIBUTING.md.
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

// sdks are the clients that clouds make, and what else one package alone needs, by how
// their packages begin, and who may use them: so a program links those alone whose
// providers it imports.
var sdks = map[string]string{
	"cloud.google.com/": "providers/gcp", "google.golang.org/": "providers/gcp", "github.com/googleapis/": "providers/gcp",
	"github.com/aws/": "providers/aws",

	"github.com/go-viper/": "providers/internal/byname", // which is small, and needed for configuration files alone
}

func forbidden(from, to string) string {
	rel := func(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, modulePath), "/") }
	ours := to == modulePath || strings.HasPrefix(to, modulePath+"/")
	switch f, g := rel(from), rel(to); {
	case !ours:
		if f == "accelerators" && strings.Contains(to, ".") {
			return "accelerators is a leaf: the standard library only"
		}
		if strings.HasPrefix(f, "providers/") && strings.HasPrefix(to, "golang.org/x/crypto/ssh") && f != "providers/local" {
			return "SSH is the pool's work"
		}
		for sdk, provider := range sdks {
			if strings.HasPrefix(to, sdk) && f != provider {
				return "this is for " + provider + " alone"
			}
		}
	case f == "accelerators":
		return "accelerators is a leaf"
	case f == "" && strings.HasPrefix(g, "providers/"):
		return "root imports no provider"
	case strings.HasPrefix(f, "internal/") && (g == "" || strings.HasPrefix(g, "providers/")):
		return "nothing under internal imports root or a provider"
	case f == "providers/colab" && g == "providers/ssh":
		// A notebook's runtime is a host that is adopted, and nothing else: one way to do that is enough.
	case strings.HasPrefix(g, "providers/internal/"), f == "providers/internal/cloudtest" && g == "providers/providertest":
		// What providers share, and what their tests share: Go itself lets nobody else have it.
	case strings.HasPrefix(f, "providers/") && strings.HasPrefix(g, "providers/") && f != "providers/all" && f != "providers/internal/byname":
		return "a provider imports no other"
	case g == "secrets/keyring" && !strings.HasPrefix(f, "examples/"):
		return "a program that wants the keyring links it, no other"
	case strings.HasPrefix(f, "providers/") && g == "internal/ssh" && f != "providers/providertest" && f != "providers/internal/cloudtest": // which play the pool's part
		return "SSH is the pool's work"
	}
	return ""
}
