package kubernetes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Files that are missing, or are none, are named without their content.
func TestKubeconfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("users: [{name: a, user: {token: hunter2 ,,"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(dir, "none"), broken} {
		_, err := Config{Kubeconfig: file}.Open(t.Context())
		cloudtest.Is(t, err, driver.ErrAuth, providerName, "open", "hunter2")
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%v does not name %s", err, file)
		}
	}
	f := startFake(t)
	c := f.config()
	c.Contexts = []string{"tema"}
	_, err := c.Open(t.Context())
	cloudtest.Is(t, err, driver.ErrInvalid, providerName, "open", testToken)
	if err == nil || !strings.Contains(err.Error(), `"team"`) {
		t.Errorf("%v does not name the contexts", err)
	}
	c = f.config()
	c.Namespace = "elsewhere"
	d := cloudtest.Open(t, c)
	_, err = d.List(t.Context(), "")
	cloudtest.Is(t, err, driver.ErrInvalid, providerName, "list", testToken)
	if err == nil || !strings.Contains(err.Error(), "set Namespace") {
		t.Errorf("%v", err)
	}
}

// A kubeconfig's exec plugin that is missing is named.
func TestExecPlugin(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	text, err := os.ReadFile(f.kubeconfig(testToken))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	plugin := "user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-auth-plugin, interactiveMode: Never, installHint: install it}}"
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "user: {token: "+testToken+"}", plugin, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Config{Kubeconfig: file}.Open(t.Context())
	cloudtest.Is(t, err, driver.ErrAuth, providerName, "open", testToken)
	if err == nil || !strings.Contains(err.Error(), "no-such-auth-plugin") {
		t.Errorf("%v", err)
	}
}

// Two contexts are two regions of one pool. A machine stays in its cluster.
func TestContexts(t *testing.T) {
	t.Parallel()
	f, g := startFake(t), startFake(t)
	f.Do(func() { f.noNodes = true })
	g.Do(func() { g.noNodes = true })
	c := Config{Kubeconfig: kubeconfigOf(t, testToken, f, g), Contexts: []string{"other", "team"}}
	d := cloudtest.Prepared(t, c)
	var ids []string
	for i, o := range cloudtest.Offers(t, d, oneA100.Query()) {
		if want := c.Contexts[i]; o.Region != want {
			t.Errorf("offer %d is in %s; want %s", i, o.Region, want)
		}
		got, err := d.Launch(t.Context(), cloudtest.Request(t, oneA100.Query(), o, i))
		ids = append(ids, cloudtest.One(t, got, err).ID)
	}
	if len(ids) != 2 || len(f.account()) != 1 || len(g.account()) != 1 {
		t.Fatalf("%q; %v, %v", ids, f.account(), g.account())
	}
	listed, err := d.List(t.Context(), "p1")
	if err != nil || len(listed) != 2 || listed[0].Region != "other" || listed[1].Region != "team" {
		t.Errorf("%+v, %v", listed, err)
	}
	if account := d.Capabilities().Account; !strings.Contains(account, f.URL+"/lab") || !strings.Contains(account, g.URL+"/lab") {
		t.Errorf("the account is %q", account)
	}
	if err := d.Terminate(t.Context(), ids[0]); err != nil || len(f.account()) != 1 || len(g.account()) != 0 {
		t.Errorf("%v; %v, %v", err, f.account(), g.account())
	}
}
