package sshd

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"

	xssh "golang.org/x/crypto/ssh"
)

// A socket is a connection to what a channel leads to.
type socket interface {
	net.Conn
	CloseWrite() error
}

// forwardUnix connects a channel to a unix socket, as `ssh -L port:/path` requests.
func forwardUnix(_ context.Context, c xssh.NewChannel) {
	var target struct {
		Path      string
		Reserved0 string
		Reserved1 uint32
	}
	if err := xssh.Unmarshal(c.ExtraData(), &target); err != nil {
		c.Reject(xssh.ConnectionFailed, "malformed request")
		return
	}
	to, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: target.Path, Net: "unix"})
	if err != nil {
		c.Reject(xssh.ConnectionFailed, err.Error())
		return
	}
	forward(c, to)
}

// forwardTCP connects a channel to a TCP address, as `ssh -L port:host:port` requests.
func forwardTCP(ctx context.Context, c xssh.NewChannel) {
	var target struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if err := xssh.Unmarshal(c.ExtraData(), &target); err != nil || target.Port > 65535 {
		c.Reject(xssh.ConnectionFailed, "malformed request")
		return
	}
	to, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(target.Host, strconv.Itoa(int(target.Port))))
	if err != nil {
		c.Reject(xssh.ConnectionFailed, err.Error())
		return
	}
	forward(c, to.(*net.TCPConn))
}

// forward connects a channel to a socket until both halves have ended, and closes the socket.
func forward(c xssh.NewChannel, to socket) {
	ch, requests, err := c.Accept()
	if err != nil {
		to.Close()
		return
	}
	var copies, all sync.WaitGroup
	all.Go(func() {
		xssh.DiscardRequests(requests) // until the channel is closed or cut
		to.Close()
	})
	copies.Go(func() {
		io.Copy(to, ch)
		to.CloseWrite()
	})
	copies.Go(func() {
		io.Copy(ch, to)
		ch.CloseWrite()
	})
	copies.Wait()
	ch.Close()
	all.Wait()
}
