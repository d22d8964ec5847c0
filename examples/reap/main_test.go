package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	m.Run()
}

// The pool of a running program is listed, and nothing of it is ended.
func TestReapLeavesTheLivingAlone(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	pool, err := gputrain.Open(t.Context(), local.Config{Dir: dir}, gputrain.Spec{Nodes: 2}, gputrain.WithName("busy"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if got := output(t); !regexp.MustCompile(`busy-\S+ +local +open +2 +\d+s +\$0\.00 `).MatchString(got) {
		t.Errorf("listed as\n%s", got)
	}
	if got := output(t, fmt.Sprintf(`local={"dir": %q}`, dir)); got != "0 resources ended\n" {
		t.Errorf("reaping says\n%s", got)
	}
	if r, err := pool.Run(gputrain.Cmd("echo", "still here")); err != nil || string(r.Stdout) != "still here\n" {
		t.Errorf("%s, %v", r.Stdout, err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if got := output(t); got != "no pools\n" {
		t.Errorf("afterwards it lists\n%s", got)
	}
}

func TestArguments(t *testing.T) {
	for arg, says := range map[string]string{
		"acme": `there is no provider "acme"; there are `, "local=dir": "not JSON", `local={"folder": "x"}`: `there is no setting "folder"`,
	} {
		if err := run(context.Background(), new(strings.Builder), arg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// The program starts in seconds for most providers: it links the vendors' clients, which
// take minutes to build, only with the tag sdk.
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

func output(t *testing.T, args ...string) string {
	t.Helper()
	var b strings.Builder
	if err := run(t.Context(), &b, args...); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
