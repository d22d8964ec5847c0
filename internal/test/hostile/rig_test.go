package hostile_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/test/hostile"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestMain(m *testing.M) {
	gputrain.Init() // this program also runs the functions on nodes
	goleak.VerifyTestMain(m)
}

func newKey(t testing.TB) xssh.Signer {
	t.Helper()
	signer, err := makeKey()
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func makeKey() (xssh.Signer, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	return xssh.NewSignerFromKey(key)
}

// behind returns a func with which a hostile node connects to the real one.
func behind(dial func(context.Context) (net.Conn, error), login xssh.Signer, hostKey xssh.PublicKey) func(context.Context) (*xssh.Client, error) {
	return func(ctx context.Context) (*xssh.Client, error) {
		nc, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		conn, channels, requests, err := xssh.NewClientConn(nc, "behind", &xssh.ClientConfig{
			User: "anyone", Auth: []xssh.AuthMethod{xssh.PublicKeys(login)}, HostKeyCallback: xssh.FixedHostKey(hostKey),
		})
		if err != nil {
			nc.Close()
			return nil, err
		}
		return xssh.NewClient(conn, channels, requests), nil
	}
}

// A rig is one hostile node with a client but without a pool.
type rig struct {
	node   *hostile.Node
	home   *hostile.Home
	work   string // the node's folder
	login  ssh.Config
	client *ssh.Client
}

// newRig makes a rig. Its node is honest until a test calls Lie.
func newRig(t testing.TB, server sshd.Config, home *hostile.Home) *rig {
	t.Helper()
	login, key := newKey(t), newKey(t)
	server.HostKey, server.AuthorizedKeys = key, []xssh.PublicKey{login.PublicKey()}
	inner, err := sshd.New(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inner.Close() })
	r := &rig{home: home, work: server.Dir}
	r.node = hostile.New(hostile.Config{
		HostKey: key, AuthorizedKeys: server.AuthorizedKeys, Secrets: secretsOf(home),
		Behind: behind(func(context.Context) (net.Conn, error) { return inner.Dial() }, login, key.PublicKey()),
	})
	t.Cleanup(r.node.Close)
	r.login = ssh.Config{
		Dial: r.node.Dial, User: "anyone", Auth: []xssh.AuthMethod{xssh.PublicKeys(login)}, HostKey: xssh.FixedHostKey(key.PublicKey()),
	}
	r.client = ssh.New(r.login)
	t.Cleanup(func() { r.client.Close() })
	if err := r.client.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func secretsOf(home *hostile.Home) [][]byte {
	if home == nil {
		return nil
	}
	return [][]byte{[]byte(home.Secret)}
}

// withShell returns a rig whose node runs real commands.
func withShell(t testing.TB, home *hostile.Home) *rig {
	t.Helper()
	return newRig(t, sshd.Config{Dir: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH")}}, home)
}

// remote returns access to the files of the rig's node.
func (r *rig) remote(tar bool) *transfer.Remote {
	return &transfer.Remote{Client: r.client, Tools: transfer.Tools{Tar: tar, SHA256: "sha256sum"}, Dir: r.work}
}

// download is Download with its defaults.
func download(ctx context.Context, from *transfer.Remote, what, dir string) error {
	return from.Download(ctx, what, dir, transfer.DownloadOptions{})
}

// write creates a file directly, not through a client.
func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A cloud is a provider whose nodes are those of another provider, each behind a hostile node.
type cloud struct {
	gputrain.Provider
	home *hostile.Home
	// first has the lies of nodes that lie from their start, by rank.
	first map[int]hostile.Liar

	mu    sync.Mutex
	nodes map[string]*made // by instance
}

// A made node is a node of a cloud.
type made struct {
	*hostile.Node
	rank    int
	hostKey string
	login   xssh.Signer   // to log in to the real node
	driver  driver.Driver // driver of the program that owns the node now
}

func newCloud(t testing.TB, behind gputrain.Provider, home *hostile.Home) *cloud {
	c := &cloud{Provider: behind, home: home, nodes: map[string]*made{}}
	t.Cleanup(c.close)
	return c
}

func (c *cloud) close() {
	c.mu.Lock()
	nodes := slices.Collect(maps.Values(c.nodes))
	c.mu.Unlock()
	for _, n := range nodes {
		n.Close()
	}
}

// lie makes the node of a rank lie from now on.
func (c *cloud) lie(rank int, l hostile.Liar) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.rank == rank {
			n.Lie(l)
		}
	}
}

func (c *cloud) at(rank int) *made {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.rank == rank {
			return n
		}
	}
	return nil
}

// leaked reports whether a node has received a secret.
func (c *cloud) leaked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.Leaked() {
			return true
		}
	}
	return false
}

func (c *cloud) Open(ctx context.Context) (driver.Driver, error) {
	d, err := c.Provider.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &hostileDriver{d, c}, nil
}

type hostileDriver struct {
	driver.Driver
	c *cloud
}

// Launch gives the real nodes another authorized key, so that only hostile nodes can log in.
func (d *hostileDriver) Launch(ctx context.Context, r driver.Launch) ([]driver.Instance, error) {
	_, _, clients, err := sshd.Keys("", r.Pool.AuthorizedKey)
	if err != nil {
		return nil, err
	}
	login, err := makeKey()
	if err != nil {
		return nil, err
	}
	r.Pool.AuthorizedKey = strings.TrimSpace(string(xssh.MarshalAuthorizedKey(login.PublicKey())))
	made, err := d.Driver.Launch(ctx, r)
	for i := range made {
		if e := d.stand(&made[i], r, login, clients); e != nil {
			err = errors.Join(err, e)
		}
	}
	return made, err
}

// stand puts a hostile node in front of a launched node.
func (d *hostileDriver) stand(in *driver.Instance, r driver.Launch, login xssh.Signer, clients []xssh.PublicKey) error {
	private := ""
	for _, want := range r.Nodes {
		if want.Name == in.Name {
			private = string(want.HostKey.Private)
		}
	}
	hostKey, public, _, err := sshd.Keys(private, "")
	if err != nil {
		return err
	}
	inst := *in
	if len(in.SSH.HostKeys) != 1 {
		return errors.New("hostile: the real node has no host key")
	}
	real, _, _, _, err := xssh.ParseAuthorizedKey([]byte(in.SSH.HostKeys[0]))
	if err != nil {
		return err
	}
	var n *made
	dial := func(ctx context.Context) (net.Conn, error) {
		d.c.mu.Lock()
		now := n.driver
		d.c.mu.Unlock()
		return now.(driver.Dialer).Dial(ctx, inst)
	}
	n = &made{driver: d.Driver, rank: in.Rank, hostKey: public, login: login, Node: hostile.New(hostile.Config{
		HostKey: hostKey, AuthorizedKeys: clients, Secrets: secretsOf(d.c.home), Behind: behind(dial, login, real),
	})}
	if l := d.c.first[in.Rank]; l != nil {
		n.Lie(l)
	}
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	d.c.nodes[in.ID] = n
	in.SSH.HostKeys = []string{public}
	return nil
}

func (d *hostileDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	found, err := d.Driver.Describe(ctx, ids...)
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	for i := range found {
		if n := d.c.nodes[found[i].ID]; n != nil && found[i].SSH.Addr != "" {
			found[i].SSH.HostKeys = []string{n.hostKey}
		}
	}
	return found, err
}

// Resume makes the hostile nodes reach the real nodes through this driver.
func (d *hostileDriver) Resume(ctx context.Context, pool driver.PoolInfo, ids ...string) error {
	r, ok := d.Driver.(driver.Resumer)
	_, _, clients, err := sshd.Keys("", pool.AuthorizedKey)
	if err != nil || !ok {
		return err
	}
	for _, id := range ids {
		own := pool
		d.c.mu.Lock()
		if n := d.c.nodes[id]; n != nil {
			n.Authorize(clients...)
			own.AuthorizedKey = strings.TrimSpace(string(xssh.MarshalAuthorizedKey(n.login.PublicKey())))
		}
		d.c.mu.Unlock()
		if err := r.Resume(ctx, own, id); err != nil {
			return err
		}
		d.c.mu.Lock()
		if n := d.c.nodes[id]; n != nil {
			n.driver = d.Driver
		}
		d.c.mu.Unlock()
	}
	return nil
}

func (d *hostileDriver) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	d.c.mu.Lock()
	n := d.c.nodes[in.ID]
	d.c.mu.Unlock()
	if n == nil {
		return nil, errors.New("hostile: no such node")
	}
	return n.Dial(ctx)
}
