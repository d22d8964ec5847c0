package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayLink are the modules that a program with only this provider may contain.
var mayLink = []string{
	"github.com/gputrain/gputrain",
	"github.com/bmatcuk/doublestar/v4",
	"github.com/creack/pty", // terminals of nodes, for Shell
	"github.com/fxamacker/cbor/v2",
	"github.com/gofrs/flock",
	"github.com/kr/fs",
	"github.com/pkg/sftp",
	"github.com/x448/float16",
	"golang.org/x/crypto",
	"golang.org/x/sync",
	"golang.org/x/sys",
	"golang.org/x/term", // raw mode, for Shell
}

// Such a program may have at most maxForeign packages of other modules. A change that raises
// the limit gives the reason. This module's own packages are not counted: code that moves into
// a package of its own makes no program larger.
const maxForeign = 23

// A program links only the providers that it imports: with this one alone it
// contains no container engine's client and no cloud's SDK.
func TestLinksNoOtherProvider(t *testing.T) {
	program := filepath.Join(t.TempDir(), "main.go")
	source := `package main

import (
	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

var _ gputrain.Provider = local.Config{}

func main() {}
`
	if err := os.WriteFile(program, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	const format = `{{if not .Standard}}{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}{{end}}`
	cmd := exec.Command("go", "list", "-deps", "-f", format, program)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	foreign := 0
	for line := range strings.Lines(string(out)) {
		pkg, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pkg == "" || pkg == "command-line-arguments" {
			continue
		}
		if module != "github.com/gputrain/gputrain" {
			foreign++
		}
		if !slices.Contains(mayLink, module) {
			t.Errorf("package %s of module %q is linked", pkg, module)
		}
		if strings.HasPrefix(pkg, "github.com/gputrain/gputrain/providers/") && pkg != "github.com/gputrain/gputrain/providers/local" && pkg != "github.com/gputrain/gputrain/providers/driver" {
			t.Errorf("another provider is linked: %s", pkg)
		}
	}
	if foreign == 0 || foreign > maxForeign {
		t.Errorf("%d packages of other modules; at most %d are expected", foreign, maxForeign)
	}
	t.Logf("%d packages of other modules", foreign)
}
