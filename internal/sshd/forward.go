package sshd

import (
	"io"
	"net"
	"sync"

	xssh "golang.org/x/crypto/ssh"
)

// forward connects a channel to a unix socket, as `ssh -L port:/path` requests.
func forward(c xssh.NewChannel) {
	var target struct {
		Path      string
		Reserved0 string
		Reserved1 uint32
	}
	if err := xssh.Unmarshal(c.ExtraData(), &target); err != nil {
		c.Reject(xssh.ConnectionFailed, "malformed request")
		return
	}
	socket, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: target.Path, Net: "unix"})
	if err != nil {
		c.Reject(xssh.ConnectionFailed, err.Error())
		return
	}
	ch, requests, err := c.Accept()
	if err != nil {
		socket.Close()
		return
	}
	var copies, all sync.WaitGroup
	all.Go(func() {
		xssh.DiscardRequests(requests) // until the channel is closed or cut
		socket.Close()
	})
	copies.Go(func() {
		io.Copy(socket, ch)
		socket.CloseWrite()
	})
	copies.Go(func() {
		io.Copy(ch, socket)
		ch.CloseWrite()
	})
	copies.Wait()
	ch.Close()
	all.Wait()
}
