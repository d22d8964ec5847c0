package slurm

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	xssh "golang.org/x/crypto/ssh"
)

// A fakeLogin is the SSH server of a login node. Its commands are those of a fake cluster.
type fakeLogin struct {
	addr, keyFile, hostKey string
	secret                 string // a line of the user's private key

	cluster      *cluster
	mu           sync.Mutex
	conns        map[net.Conn]bool
	noForwarding bool
	accepted     int
	life         context.Context
	end          context.CancelFunc
	wg           sync.WaitGroup
}

// startLogin starts a server that ends with the test.
func startLogin(t testing.TB, c *cluster) *fakeLogin {
	t.Helper()
	l := &fakeLogin{cluster: c, conns: map[net.Conn]bool{}}
	l.life, l.end = context.WithCancel(context.Background())
	user, keyFile, secret := testKey(t)
	host, _, _ := testKey(t)
	l.keyFile, l.secret, l.hostKey = keyFile, secret, host.Public
	cfg := &xssh.ServerConfig{PublicKeyCallback: func(_ xssh.ConnMetadata, key xssh.PublicKey) (*xssh.Permissions, error) {
		if string(key.Marshal()) != string(user.Signer.PublicKey().Marshal()) {
			return nil, io.EOF
		}
		return nil, nil
	}}
	cfg.AddHostKey(host.Signer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.addr = listener.Addr().String()
	l.wg.Go(func() {
		for {
			nc, err := listener.Accept()
			if err != nil {
				return
			}
			l.wg.Go(func() { l.serve(nc, cfg) })
		}
	})
	t.Cleanup(func() {
		l.end()
		listener.Close()
		l.cut()
		l.wg.Wait()
	})
	return l
}

// cut cuts all connections.
func (l *fakeLogin) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for nc := range l.conns {
		nc.Close()
	}
}

// connections returns how many were accepted.
func (l *fakeLogin) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

func (l *fakeLogin) serve(nc net.Conn, cfg *xssh.ServerConfig) {
	l.mu.Lock()
	l.conns[nc] = true
	l.accepted++
	over := l.life.Err() != nil
	l.mu.Unlock()
	defer func() {
		nc.Close()
		l.mu.Lock()
		delete(l.conns, nc)
		l.mu.Unlock()
	}()
	if over {
		return
	}
	_, channels, requests, err := xssh.NewServerConn(nc, cfg)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(l.life)
	defer cancel()
	l.wg.Go(func() { xssh.DiscardRequests(requests) })
	for c := range channels {
		switch c.ChannelType() {
		case "session":
			l.wg.Go(func() { l.session(ctx, c) })
		case "direct-tcpip":
			l.wg.Go(func() { l.forward(ctx, c) })
		default:
			c.Reject(xssh.UnknownChannelType, "")
		}
	}
}

func (l *fakeLogin) session(ctx context.Context, c xssh.NewChannel) {
	ch, requests, err := c.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	for r := range requests {
		var exec struct{ Command string }
		if r.Type != "exec" || xssh.Unmarshal(r.Payload, &exec) != nil {
			r.Reply(false, nil)
			continue
		}
		r.Reply(true, nil)
		ctx, cancel := context.WithCancel(ctx)
		l.wg.Go(func() { xssh.DiscardRequests(requests); cancel() }) // the client has closed the channel
		code := l.cluster.shell(ctx, l, exec.Command, ch)
		if code >= 0 {
			ch.SendRequest("exit-status", false, xssh.Marshal(struct{ Code uint32 }{uint32(code)}))
		}
		return
	}
}

func (l *fakeLogin) forward(ctx context.Context, c xssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	l.mu.Lock()
	forbidden := l.noForwarding
	l.mu.Unlock()
	if forbidden || xssh.Unmarshal(c.ExtraData(), &to) != nil {
		c.Reject(xssh.Prohibited, "administratively prohibited: open failed")
		return
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		c.Reject(xssh.ConnectionFailed, err.Error())
		return
	}
	ch, requests, err := c.Accept()
	if err != nil {
		conn.Close()
		return
	}
	var copies sync.WaitGroup
	copies.Go(func() { xssh.DiscardRequests(requests); conn.Close() })
	copies.Go(func() { io.Copy(conn, ch); conn.(*net.TCPConn).CloseWrite() })
	copies.Go(func() { io.Copy(ch, conn); ch.Close() })
	copies.Wait()
}
