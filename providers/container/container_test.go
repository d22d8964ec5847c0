package container

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestMain(m *testing.M) {
	gputrain.Init() // this program is also what runs functions on nodes
	goleak.VerifyTestMain(m)
}

// onEngines runs a test with Docker, and with podman if that is installed and works. Without
// Docker or its default image the test is skipped, or fails if GPUTRAIN_REQUIRE_DOCKER is set.
func onEngines(t *testing.T, test func(t *testing.T, binary string)) {
	t.Helper()
	t.Run("docker", func(t *testing.T) {
		requireDocker(t)
		test(t, "docker")
	})
	t.Run("podman", func(t *testing.T) {
		if missing := lacking("podman"); missing != "" {
			t.Skip(missing)
		}
		test(t, "podman")
	})
}

// long leaves a test that makes images out of a short run.
func long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it makes an image, or starts several containers")
	}
}

func requireDocker(t testing.TB) {
	t.Helper()
	missing := lacking("docker")
	if missing == "" {
		return
	}
	if os.Getenv("GPUTRAIN_REQUIRE_DOCKER") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// Engines are asked once: each command takes a tenth of a second.
var (
	lacking   = perEngine(askLacking)
	defaultOf = perEngine(askDefault)
)

func perEngine(ask func(binary string) string) func(binary string) string {
	var mu sync.Mutex
	answers := map[string]string{}
	return func(binary string) string {
		mu.Lock()
		defer mu.Unlock()
		answer, asked := answers[binary]
		if !asked {
			answer = ask(binary)
			answers[binary] = answer
		}
		return answer
	}
}

// askLacking returns what an engine lacks for the tests, or "".
func askLacking(binary string) string {
	if out, err := exec.Command(binary, "info").CombinedOutput(); err != nil {
		return fmt.Sprintf("no %s here: %v %s", binary, err, tail(string(out)))
	}
	image := askDefault(binary)
	if image == "" {
		return "neither " + DefaultImage + " nor " + HomeMadeImage + " here: run CONTAINER_BINARY=" + binary + " scripts/container-image"
	}
	if out, err := exec.Command(binary, "run", "--rm", "--pull", "never", image, "true").CombinedOutput(); err != nil {
		return fmt.Sprintf("%s does not run containers here: %s", binary, tail(string(out)))
	}
	return ""
}

// askDefault returns the default image that an engine has, or "".
func askDefault(binary string) string {
	for _, image := range []string{DefaultImage, HomeMadeImage} {
		if exec.Command(binary, "image", "inspect", image).Run() == nil {
			return image
		}
	}
	return ""
}

// do runs the engine's command directly, and returns its output.
func do(t testing.TB, binary string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(binary, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", binary, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// pause pauses a container, which can fail while processes start and end in it.
func pause(t testing.TB, binary, id string) {
	t.Helper()
	for range 10 {
		if exec.Command(binary, "pause", id).Run() == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	do(t, binary, "pause", id)
}

// A rig is a driver for a pool, which is removed with the test.
type rig struct {
	testing.TB
	driver *containerDriver
	pool   driver.PoolInfo
	signer ssh.Signer
	hosts  map[string]ssh.PublicKey // by node name
}

func newRig(t testing.TB, cfg Config) *rig {
	t.Helper()
	d, err := cfg.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rigFor(t, d.(*containerDriver))
}

func rigFor(t testing.TB, d *containerDriver) *rig {
	t.Helper()
	id := make([]byte, 6)
	rand.Read(id)
	signer, _ := newKey(t)
	r := &rig{TB: t, driver: d, signer: signer, hosts: map[string]ssh.PublicKey{}, pool: driver.PoolInfo{
		ID:            "test-" + hex.EncodeToString(id),
		Owner:         "a test of the container provider",
		AuthorizedKey: string(ssh.MarshalAuthorizedKey(signer.PublicKey())),
		Expires:       time.Now().Add(time.Hour),
	}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*cleanupTimeout)
		defer cancel()
		r.end(ctx)
		if left := r.list(ctx); len(left) > 0 {
			t.Errorf("left behind: %+v", left)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// end terminates the pool's nodes and releases the rest.
func (r *rig) end(ctx context.Context) {
	r.Helper()
	for _, res := range r.list(ctx) {
		if res.Kind == "machine" {
			if err := r.driver.Terminate(ctx, res.ID); err != nil {
				r.Error(err)
			}
		}
	}
	if err := r.driver.Release(ctx, r.pool); err != nil {
		r.Error(err)
	}
}

// do runs the engine's command directly.
func (r *rig) do(args ...string) string {
	r.Helper()
	return do(r, r.driver.engine.path, args...)
}

func (r *rig) list(ctx context.Context) []driver.Resource {
	r.Helper()
	list, err := r.driver.List(ctx, r.pool.ID)
	if err != nil {
		r.Fatal(err)
	}
	return list
}

// packagesOf returns the packages of an image.
func packagesOf(i gputrain.Image) driver.Packages {
	return driver.Packages{Apt: i.Apt, Python: i.Python, Pip: i.Pip, Requirements: i.Requirements, PipIndexes: i.PipIndexes, Env: i.Env, PhaseTimeout: i.PhaseTimeout}
}

// request asks for n nodes, each with a host key of its own.
func (r *rig) request(n int, spec gputrain.Spec) driver.Launch {
	r.Helper()
	req := driver.Launch{Pool: r.pool, Query: spec.Query(), Packages: packagesOf(spec.Image), Token: "token"}
	for rank := range n {
		signer, private := newKey(r)
		name := r.pool.ID + "-" + string(rune('0'+rank))
		r.hosts[name] = signer.PublicKey()
		req.Nodes = append(req.Nodes, driver.NodeRequest{Rank: rank, Name: name, HostKey: driver.HostKey{
			Private: driver.Secret(private),
			Public:  strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))) + " made by a test",
		}})
	}
	return req
}

// up prepares the pool and launches n nodes.
func (r *rig) up(n int, spec gputrain.Spec) []driver.Instance {
	r.Helper()
	if err := r.driver.Prepare(r.Context(), r.pool); err != nil {
		r.Fatal(err)
	}
	nodes, err := r.driver.Launch(r.Context(), r.request(n, spec))
	if err != nil {
		r.Fatal(err)
	}
	return nodes
}

// connect opens an SSH connection that accepts only the node's injected key.
func (r *rig) connect(in driver.Instance) *ssh.Client {
	r.Helper()
	conn, err := r.driver.Dial(r.Context(), in)
	if err != nil {
		r.Fatal(err)
	}
	c, chans, reqs, err := ssh.NewClientConn(conn, in.SSH.Addr, &ssh.ClientConfig{
		User:            in.SSH.User,
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(r.signer)},
		HostKeyCallback: ssh.FixedHostKey(r.hosts[in.Name]),
	})
	if err != nil {
		conn.Close()
		r.Fatalf("%s: %v", in.Name, err)
	}
	client := ssh.NewClient(c, chans, reqs)
	r.Cleanup(func() { client.Close() })
	return client
}

// sh runs a shell script on a node and returns its output.
func (r *rig) sh(c *ssh.Client, text string) string {
	r.Helper()
	s, err := c.NewSession()
	if err != nil {
		r.Fatal(err)
	}
	defer s.Close()
	var stderr bytes.Buffer
	s.Stderr = &stderr
	out, err := s.Output(text)
	if err != nil {
		r.Fatalf("%s: %v\n%s", text, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// gone waits until the engine has no such container.
func (r *rig) gone(id string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), cleanupTimeout)
	defer cancel()
	for {
		got, err := r.driver.Describe(ctx, id)
		if err != nil {
			r.Fatal(err)
		}
		if got[0].State == driver.InstanceTerminated {
			return
		}
		retry.Sleep(ctx, settleInterval)
	}
}

func newKey(t testing.TB) (signer ssh.Signer, private string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	if signer, err = ssh.NewSignerFromKey(key); err != nil {
		t.Fatal(err)
	}
	return signer, string(pem.EncodeToMemory(block))
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && host == "127.0.0.1"
}
