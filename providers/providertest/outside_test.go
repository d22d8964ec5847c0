package providertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A provider in another module runs the suite with its own fake, and uses only public
// packages.
func TestOutsideThisModule(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it compiles another module's test")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for from, to := range map[string]string{"testdata/outside/acme_test.go": "acme_test.go", "../../go.mod": "go.mod", "../../go.sum": "go.sum"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if to == "go.mod" { // it requires this module, and all that this module requires
			name := "module github.com/gputrain/gputrain\n"
			if !strings.Contains(string(text), name) {
				t.Fatalf("go.mod has no line %q", name)
			}
			text = append([]byte(strings.Replace(string(text), name, "module acme.example/gputrain-acme\n", 1)),
				"\nrequire github.com/gputrain/gputrain v0.0.0\nreplace github.com/gputrain/gputrain => "+root+"\n"...)
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-mod=mod", "-v", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"--- PASS: TestConformance/terminate_and_release_leave_silence", "--- PASS: TestConformance/end_to_end_with_a_function", "--- SKIP: TestConformance/launch_of_what"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
}
