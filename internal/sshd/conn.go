package sshd

import (
	"net"
	"sync/atomic"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// serve serves one connection, which enterConn has recorded.
func (s *Server) serve(nc net.Conn) {
	defer leave(s, s.conns, nc)
	defer nc.Close()

	nc.SetDeadline(time.Now().Add(loginGrace))
	_, channels, requests, err := xssh.NewServerConn(nc, s.auth)
	if err != nil {
		return // the client was told why, if that was possible
	}
	nc.SetDeadline(time.Time{})

	// As with OpenSSH, the answer to keepalive@openssh.com is a refusal: the client only needs an
	// answer.
	s.wg.Go(func() { xssh.DiscardRequests(requests) })

	var sessions atomic.Int64
	for c := range channels {
		switch c.ChannelType() {
		case "session":
			if n := sessions.Add(1); s.cfg.MaxSessions > 0 && n > int64(s.cfg.MaxSessions) {
				sessions.Add(-1)
				c.Reject(xssh.ConnectionFailed, "open failed") // the text that OpenSSH sends
				continue
			}
			s.wg.Go(func() {
				defer sessions.Add(-1)
				s.serveSession(c)
			})
		case "direct-streamlocal@openssh.com", "direct-tcpip":
			if s.cfg.Run != nil || s.cfg.NoForwarding {
				c.Reject(xssh.Prohibited, "administratively prohibited: open failed")
				continue
			}
			to := forwardTCP
			if c.ChannelType() != "direct-tcpip" {
				to = forwardUnix
			}
			s.wg.Go(func() { to(s.life, c) })
		default:
			c.Reject(xssh.UnknownChannelType, "unknown channel type "+c.ChannelType())
		}
	}
}
