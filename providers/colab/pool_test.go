//go:build unix

package colab_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/colab"
	"github.com/gputrain/gputrain/providers/driver"
	xssh "golang.org/x/crypto/ssh"
)

// A notebook is a runtime that has run the cell: an OpenSSH server behind a tunnel.
type notebook struct {
	srv    *opensshtest.Server
	tunnel *opensshtest.Link
	home   string
}

// The output of nvidia-smi on several types of runtime.
const (
	t4    = "Tesla T4, 15360\n"
	noGPU = ""
)

// newNotebook opens a notebook whose nvidia-smi prints gpus. When the test ends, the runtime
// must be as it was found.
func newNotebook(t *testing.T, gpus string) *notebook {
	t.Helper()
	home := filepath.Join(t.TempDir(), "root")
	must(t, os.MkdirAll(filepath.Join(home, "mine"), 0o700))
	found := tree(home)
	bin := t.TempDir()
	script(t, filepath.Join(bin, "nvidia-smi"), fmt.Sprintf("case $1 in --query-gpu=*) printf %%s '%s';; esac", gpus))
	srv := opensshtest.Start(t, opensshtest.Config(fmt.Sprintf(`SetEnv "HOME=%s" "PATH=%s:%s"`, home, bin, os.Getenv("PATH"))))
	t.Cleanup(func() {
		if left := tree(home); !slices.Equal(left, found) {
			t.Errorf("the runtime has %q, and not as before %q", left, found)
		}
	})
	return &notebook{srv: srv, tunnel: opensshtest.Proxy(t, srv.Addr), home: home}
}

// config returns the user's Config, with the printed endpoint.
func (n *notebook) config() colab.Config {
	return colab.Config{Endpoint: n.endpoint(n.tunnel), KeyFile: n.srv.KeyFile}
}

func (n *notebook) endpoint(tunnel *opensshtest.Link) colab.Endpoint {
	host, port, _ := net.SplitHostPort(tunnel.Addr)
	number, _ := strconv.Atoi(port)
	return colab.Endpoint{Host: host, Port: number, User: n.srv.User, HostKey: line(n.srv.HostKey)}
}

func line(key xssh.PublicKey) string {
	return strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key)))
}

// tree lists the files below a folder.
func tree(dir string) (files []string) {
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path != dir {
			files = append(files, strings.TrimPrefix(path, dir+"/"))
		}
		return nil
	})
	return files
}

// use runs a command and a function on a pool's node.
func use(t *testing.T, pool *gputrain.Compute) {
	t.Helper()
	if r, err := pool.Run(gputrain.Script(`echo "$HOME"`)); err != nil || !strings.HasPrefix(string(r.Stdout), "/") {
		t.Errorf("a command says %q, %v", r.Stdout, err)
	}
	if n, err := double.Run(pool, 21); n != 42 || err != nil {
		t.Errorf("a function returns %d, %v", n, err)
	}
}

// A pool of the cell's endpoint works, and leaves the runtime as it was found.
func TestPool(t *testing.T) {
	n := newNotebook(t, t4)
	pool, err := gputrain.Open(t.Context(), n.config(), gputrain.Spec{Accelerator: accelerators.T4(), MaxHourlyUSD: 0.01})
	must(t, err)
	use(t, pool)
	node := pool.Nodes()[0]
	if usd, known := node.HourlyUSD.USD(); node.Accelerator.String() != "T4-15GB" || node.Provider != "colab" || node.Region != "colab" || usd != 0 || !known {
		t.Errorf("odd node %+v", node)
	}
	if labels := node.Labels(); labels[gputrain.LabelAccelerator] != "T4" {
		t.Errorf("labels %v", labels)
	}
	must(t, pool.Close())
	if _, err := gputrain.Open(t.Context(), n.config(), gputrain.Spec{Nodes: 2}); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "a runtime is one") {
		t.Errorf("two nodes: %v", err)
	}
}

// onceOnly fails the test if the pool tries again: that would be the same runtime.
func onceOnly(t *testing.T) gputrain.Option {
	var attempts atomic.Int32
	return gputrain.WithEvents(func(e gputrain.Event) {
		if e.State == gputrain.NodeConnecting.String() && attempts.Add(1) > 1 {
			t.Error("the runtime is tried again")
		}
	})
}

// A server with an unexpected key receives nothing, and the error says what to do.
func TestStrangers(t *testing.T) {
	other := opensshtest.Start(t)
	for _, tt := range []struct {
		name string
		arm  func(*colab.Config)
		kind error
		says string
	}{
		{"host key", func(c *colab.Config) { c.Endpoint.HostKey = line(other.HostKey) }, driver.ErrHostKey, "run the cell again"},
		{"fingerprint", func(c *colab.Config) { c.Endpoint.HostKey = xssh.FingerprintSHA256(other.HostKey) }, driver.ErrHostKey, "run the cell again"},
		{"key", func(c *colab.Config) { c.KeyFile = other.KeyFile }, driver.ErrAuth, "see BootstrapCell"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNotebook(t, t4)
			c := n.config()
			tt.arm(&c)
			pool, err := gputrain.Open(t.Context(), c, gputrain.Spec{}, onceOnly(t))
			if err == nil {
				pool.Close()
			}
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v; want %v and %q", err, tt.kind, tt.says)
			}
			if log := n.srv.Log(); strings.Contains(log, "Accepted") || tt.kind == driver.ErrHostKey && strings.Contains(log, "authenticating user") {
				t.Errorf("the server was told too much:\n%s", log)
			}
		})
	}
}

// impatient gives a machine a second to come up.
type impatient struct{ colab.Config }

type impatientDriver struct {
	driver.Driver
	driver.Scripter
	driver.Adviser
}

func (p impatient) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	return impatientDriver{d, d.(driver.Scripter), d.(driver.Adviser)}, nil
}

func (d impatientDriver) Capabilities() driver.Capabilities {
	caps := d.Driver.Capabilities()
	caps.ProvisionTimeout = time.Second
	return caps
}

// If the tunnel is gone, the error says where to look.
func TestTunnelIsGone(t *testing.T) {
	n := newNotebook(t, t4)
	n.tunnel.Refuse(true)
	pool, err := gputrain.Open(t.Context(), impatient{n.config()}, gputrain.Spec{}, onceOnly(t))
	if err == nil {
		pool.Close()
	}
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "check that the cell still runs") || !strings.Contains(err.Error(), n.tunnel.Addr) {
		t.Errorf("got %v", err)
	}
}

// A runtime with another accelerator than the spec's is refused, unless AcceptAnyGPU is set.
func TestAccelerators(t *testing.T) {
	for _, tt := range []struct {
		name, gpus string
		wants      accelerators.Accelerator
		says       string
	}{
		{"another GPU", t4, accelerators.A100(), "the runtime has T4-15GB; the spec asks for A100"},
		{"too few", t4, accelerators.T4(accelerators.Count(2)), "asks for T4:2"},
		{"none", noGPU, accelerators.T4(), "the runtime has no accelerator"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNotebook(t, tt.gpus)
			c, spec := n.config(), gputrain.Spec{Accelerator: tt.wants}
			pool, err := gputrain.Open(t.Context(), c, spec)
			if err == nil {
				pool.Close()
			}
			if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "Change runtime type") {
				t.Errorf("got %v; want %q", err, tt.says)
			}
			c.AcceptAnyGPU = true
			pool, err = gputrain.Open(t.Context(), c, spec)
			must(t, err)
			must(t, pool.Close())
		})
	}
}

// A reopened tunnel has another address and leads to the same runtime: Attach takes over the
// pool there, with its tasks.
func TestAttachAtTheNextAddress(t *testing.T) {
	n := newNotebook(t, t4)
	first, err := gputrain.Open(t.Context(), n.config(), gputrain.Spec{})
	must(t, err)
	proceed := filepath.Join(t.TempDir(), "proceed")
	first.Start(gputrain.Script("until [ -e '" + proceed + "' ]; do sleep 0.05; done; echo done"))
	c := n.config()
	c.Endpoint = n.endpoint(opensshtest.Proxy(t, n.srv.Addr))
	n.tunnel.Refuse(true)
	n.tunnel.Cut()

	second, err := gputrain.Attach(t.Context(), c, first.ID(), gputrain.WithTakeover())
	must(t, err)
	must(t, os.WriteFile(proceed, nil, 0o600))
	jobs := second.Jobs()
	if len(jobs) != 1 {
		t.Fatalf("%d jobs", len(jobs))
	}
	if r, err := jobs[0].Wait(); err != nil || string(r.Stdout) != "done\n" || r.Attempts != 1 {
		t.Errorf("the job: %q, %v, %d attempts", r.Stdout, err, r.Attempts)
	}
	if got := second.Nodes()[0]; got.Accelerator.Name != "T4" {
		t.Errorf("the node has %v", got.Accelerator)
	}
	must(t, second.Close())
	if err := first.Close(); !errors.Is(err, driver.ErrFenced) {
		t.Errorf("the first program: %v", err)
	}
}
