package clustertest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/kubernetes"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	if os.Getenv(doomedVariable) != "" {
		beDoomed()
	}
	code := m.Run()
	if the.up {
		the.down()
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// A cluster is the testbed.
type cluster struct {
	once    sync.Once
	up      bool
	err     error
	name    string // of its containers
	dir     string // a copy of the testbed's scripts
	program string
	admin   string // a kubeconfig with all rights
	config  string // a kubeconfig with the rights of role.yaml
}

// the cluster of this program is made by the first test that needs it, and removed after the last.
var the cluster

const (
	namespace = "lab"
	version   = "v1.34.4"
	// nodeImage is what scripts/container-image makes: an image with an SSH server.
	nodeImage = "gputrain-debian:bookworm"
)

// builtProgram returns the testbed's program, which its build script leaves in this place.
func builtProgram() string {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(cache, "gputrain", "testplane", "testplane-"+version)
}

// start returns the cluster. It skips a short test, and one without what the cluster is made of. If the cluster's program has
// been built, GPUTRAIN_REQUIRE_DOCKER makes the latter a failure.
func start(t testing.TB) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("scripts/kubernetes-test runs it: it needs a cluster")
	}
	if _, err := os.Stat(builtProgram()); err != nil {
		t.Skip("the Kubernetes testbed is not built here: scripts/kubernetes-test builds it")
	}
	if err := exec.Command("docker", "image", "inspect", nodeImage).Run(); err != nil {
		why := fmt.Sprintf("no container engine with %s, which scripts/container-image --force makes: %v", nodeImage, err)
		if os.Getenv("GPUTRAIN_REQUIRE_DOCKER") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	the.once.Do(func() { the.err = the.start() })
	if the.err != nil {
		t.Fatal(the.err)
	}
	return &the
}

var from = regexp.MustCompile(`(?m)^FROM .*$`)

// start makes the cluster of a copy of the testbed, whose image is made of the local one.
func (c *cluster) start() error {
	c.name, c.program = "gputrain-k8s-"+strings.ToLower(rand.Text()[:6]), builtProgram()
	dir, err := os.MkdirTemp("", "gputrain-k8s-")
	if err != nil {
		return err
	}
	c.dir, c.up = dir, true
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "testbed"))); err != nil {
		return err
	}
	recipe, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), from.ReplaceAll(recipe, []byte("FROM "+nodeImage)), 0o644); err != nil {
		return err
	}
	out, err := c.script("./up")
	if err != nil {
		return err
	}
	lines := strings.Fields(out)
	c.admin = lines[len(lines)-1]
	return c.grant()
}

func (c *cluster) script(args ...string) (string, error) {
	cmd := exec.Command("sh", args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "NAME="+c.name, "IMAGES="+nodeImage)
	return output(cmd)
}

func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%q: %w: %s%s", cmd.Args, err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String(), nil
}

func (c *cluster) down() {
	if _, err := c.script("./down", "--images"); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(c.dir)
}

// kubectl runs a command with all rights.
func (c *cluster) kubectl(args ...string) (string, error) {
	return output(exec.Command(c.program, append([]string{"kubectl", "--kubeconfig", c.admin}, args...)...))
}

func (c *cluster) must(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.kubectl(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply makes objects.
func (c *cluster) apply(t testing.TB, objects string) {
	t.Helper()
	cmd := exec.Command(c.program, "kubectl", "--kubeconfig", c.admin, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(objects)
	if _, err := output(cmd); err != nil {
		t.Fatal(err)
	}
}

// remove deletes an object at the test's end.
func (c *cluster) remove(t testing.TB, args ...string) {
	t.Cleanup(func() {
		if _, err := c.kubectl(append([]string{"delete", "--ignore-not-found"}, args...)...); err != nil {
			t.Error(err)
		}
	})
}

// grant makes the namespace, and a service account with exactly the rights of role.yaml.
func (c *cluster) grant() error {
	for _, args := range [][]string{
		{"create", "namespace", namespace},
		{"-n", namespace, "apply", "-f", "../role.yaml"},
	} {
		if _, err := c.kubectl(args...); err != nil {
			return err
		}
	}
	config, err := c.account("gputrain", "gputrain")
	c.config = config
	return err
}

// account makes a service account with a role of the namespace, and its kubeconfig.
func (c *cluster) account(name, role string) (string, error) {
	who := namespace + ":" + name
	for _, args := range [][]string{
		{"-n", namespace, "create", "serviceaccount", name},
		{"-n", namespace, "create", "rolebinding", name, "--role", role, "--serviceaccount", who},
		{"create", "clusterrolebinding", name, "--clusterrole", "gputrain-nodes", "--serviceaccount", who},
	} {
		if _, err := c.kubectl(args...); err != nil {
			return "", err
		}
	}
	token, err := c.kubectl("-n", namespace, "create", "token", name, "--duration", "6h")
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(c.admin)
	if err != nil {
		return "", err
	}
	file := filepath.Join(c.dir, name+".conf")
	own := regexp.MustCompile(`token: [^}]*`).ReplaceAll(text, []byte("token: "+strings.TrimSpace(token)))
	return file, os.WriteFile(file, own, 0o600)
}

// provider returns the configuration of the tests.
func (c *cluster) provider() kubernetes.Config {
	return kubernetes.Config{Kubeconfig: c.config, Namespace: namespace, Image: nodeImage, PullPolicy: "Never"}
}

// left returns what exists of a pool, or of all pools, in the namespace.
func (c *cluster) left(pool string) ([]string, error) {
	label := "gputrain.dev/pool"
	if pool != "" {
		label += "=" + pool
	}
	out, err := c.kubectl("-n", namespace, "get", "jobs,pods,secrets", "-l", label, "-o", "name")
	return strings.Fields(out), err
}

// wantNothing waits until nothing of a pool is left.
func (c *cluster) wantNothing(t testing.TB, pool string) {
	t.Helper()
	c.wantNothingIn(t, 3*time.Minute, pool)
}

func (c *cluster) wantNothingIn(t testing.TB, limit time.Duration, pool string) {
	t.Helper()
	var left []string
	if !eventually(limit, func() bool {
		var err error
		left, err = c.left(pool)
		return err == nil && len(left) == 0
	}) {
		t.Errorf("of %s is left: %q", pool, left)
	}
}

// eventually waits until something is so.
func eventually(limit time.Duration, so func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(200 * time.Millisecond) {
		if so() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
