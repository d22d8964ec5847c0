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
)

func TestMain(m *testing.M) {
	gputrain.Init() // this program is also what runs functions on nodes
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

// behind returns how a hostile node reaches the real one.
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

// A rig is one hostile node that a client reaches without a pool.
type rig struct {
	node   *hostile.Node
	home   *hostile.Home
	work   string // the node's folder
	login  ssh.Config
	client *ssh.Client
}

// newRig makes a rig. Its node is honest at first.
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

// withShell is a rig whose node runs real commands.
func withShell(t testing.TB, home *hostile.Home) *rig {
	t.Helper()
	return newRig(t, sshd.Config{Dir: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH")}}, home)
}

// remote is the files of the rig's node.
func (r *rig) remote(tar bool) *transfer.Remote {
	return &transfer.Remote{Client: r.client, Tools: transfer.Tools{Tar: tar, SHA256: "sha256sum"}, Dir: r.work}
}

// download is Download with its defaults.
func download(ctx context.Context, from *transfer.Remote, what, dir string) error {
	return from.Download(ctx, what, dir, transfer.DownloadOptions{})
}

// write puts a file on the node, behind its back.
func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A cloud is a provider whose nodes are those of another one, behind nodes that lie.
type cloud struct {
	gputrain.Provider
	home *hostile.Home
	// first has, by rank, the lies that nodes tell from their start.
	first map[int]hostile.Liar

	mu    sync.Mutex
	nodes map[string]*made // by instance
}

// A made node is one of a cloud.
type made struct {
	*hostile.Node
	rank    int
	hostKey string
	login   xssh.Signer     // at the real node
	driver  gputrain.Driver // of the program that serves it now
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

// lie has the node of a rank lie from now on.
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

func (c *cloud) Open(ctx context.Context) (gputrain.Driver, error) {
	d, err := c.Provider.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &driver{d, c}, nil
}

type driver struct {
	gputrain.Driver
	c *cloud
}

// Launch gives the nodes behind a key of its own, so that only hostile nodes can log in.
func (d *driver) Launch(ctx context.Context, r gputrain.LaunchRequest) ([]gputrain.Instance, error) {
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

// stand puts a hostile node before one that was launched.
func (d *driver) stand(in *gputrain.Instance, r gputrain.LaunchRequest, login xssh.Signer, clients []xssh.PublicKey) error {
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
		return errors.New("hostile: the node behind has no host key")
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
		return now.(gputrain.Dialer).Dial(ctx, inst)
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

func (d *driver) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
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

// Resume has the nodes behind served by this driver.
func (d *driver) Resume(ctx context.Context, pool gputrain.PoolInfo, ids ...string) error {
	r, ok := d.Driver.(gputrain.Resumer)
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

func (d *driver) Dial(ctx context.Context, in gputrain.Instance) (net.Conn, error) {
	d.c.mu.Lock()
	n := d.c.nodes[in.ID]
	d.c.mu.Unlock()
	if n == nil {
		return nil, errors.New("hostile: no such node")
	}
	return n.Dial(ctx)
}
