package kubernetes

import (
	"context"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	ownssh "github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
)

// benchVariable names the kubeconfig of a real cluster: clustertest's benchmark sets it.
const benchVariable = "GPUTRAIN_KUBERNETES_BENCH"

func benchConfig(b *testing.B) Config {
	file := os.Getenv(benchVariable)
	if file == "" {
		b.Skip("scripts/kubernetes-test -run - -bench . runs it")
	}
	return Config{Kubeconfig: file, Namespace: "lab", Image: "gputrain-debian:bookworm", PullPolicy: "Never"}
}

// From Open to the result of the first command: the Job, its pod, the connection.
func BenchmarkFirstResult(b *testing.B) { e2etest.BenchmarkFirstResult(b, benchConfig(b)) }

// Commands and bytes over each way to one pod, by x/crypto/ssh alone: the pod's own address is the
// measure.
func BenchmarkConnections(b *testing.B) {
	c := benchConfig(b)
	d, in, signer := benchNode(b, c)
	k := d.api.clusters[0]
	pods, _, err := k.podsOf(b.Context(), in.ID)
	if err != nil || len(pods) != 1 {
		b.Fatal(pods, err)
	}
	name := pods[0].Metadata.Name
	for _, way := range []struct {
		name string
		dial func(ctx context.Context) (net.Conn, error)
	}{
		{"plain", func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", in.SSH.Addr)
		}},
		{"websocket", func(ctx context.Context) (net.Conn, error) {
			c, err := k.webSocket(ctx, name)
			if err != nil {
				return nil, err
			}
			return forwarded(ctx, c, name)
		}},
		{"spdy", func(ctx context.Context) (net.Conn, error) {
			c, err := k.spdy(ctx, name)
			if err != nil {
				return nil, err
			}
			return forwarded(ctx, c, name)
		}},
	} {
		b.Run(way.name, func(b *testing.B) { benchWay(b, way.dial, signer) })
	}
}

func benchNode(b *testing.B, c Config) (*kubernetesDriver, driver.Instance, ssh.Signer) {
	opened, err := c.Open(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	d := opened.(*kubernetesDriver)
	b.Cleanup(func() { d.Close() })
	pair, err := ownssh.NewKeyPair()
	if err != nil {
		b.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey([]byte(pair.Private))
	if err != nil {
		b.Fatal(err)
	}
	req := driver.Launch{
		Pool:  driver.PoolInfo{ID: "bench", Owner: "host/1/1", Lease: time.Hour, AuthorizedKey: pair.Public},
		Nodes: []driver.NodeRequest{{Name: "bench-0", HostKey: driver.HostKey{Private: driver.Secret(pair.Private), Public: pair.Public}}},
	}
	for o, err := range d.Offers(b.Context(), req.Query) {
		if err != nil {
			b.Fatal(err)
		}
		req.Offer = o
	}
	got, err := d.Launch(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Terminate(context.Background(), got[0].ID) })
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		now, err := d.Describe(b.Context(), got[0].ID)
		if err == nil && now[0].State == driver.InstanceRunning {
			return d, now[0], signer
		}
	}
	b.Fatal("the node does not run")
	return nil, driver.Instance{}, nil
}

func benchWay(b *testing.B, dial func(context.Context) (net.Conn, error), signer ssh.Signer) {
	connect := func() (*ssh.Client, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		nc, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		c, channels, requests, err := ssh.NewClientConn(nc, "pod", &ssh.ClientConfig{User: root, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		if err != nil {
			nc.Close()
			return nil, err
		}
		return ssh.NewClient(c, channels, requests), nil
	}
	client, err := connect()
	for end := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(end); client, err = connect() {
		time.Sleep(200 * time.Millisecond) // its server starts
	}
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	run := func(b *testing.B, command string, in io.Reader) {
		s, err := client.NewSession()
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		s.Stdin, s.Stdout = in, io.Discard
		if err := s.Run(command); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("connect", func(b *testing.B) {
		for b.Loop() {
			c, err := connect()
			if err != nil {
				b.Fatal(err)
			}
			c.Close()
		}
	})
	b.Run("command", func(b *testing.B) {
		for b.Loop() {
			run(b, "true", nil)
		}
	})
	const size = 64 << 20
	b.Run("down", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			run(b, "head -c 67108864 /dev/zero", nil)
		}
	})
	b.Run("up", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			run(b, "cat >/dev/null", io.LimitReader(zeros{}, size))
		}
	})
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
