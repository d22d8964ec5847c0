package sshd

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"strings"

	"github.com/gputrain/gputrain/internal/loginshell"
	xssh "golang.org/x/crypto/ssh"
)

// serveProgram runs Config.Run as the session's program, with sh's args.
func (sn *session) serveProgram(args []string) {
	p := Program{Env: sn.env, Stdin: sn.ch, Stdout: sn.ch, Stderr: sn.ch.Stderr()}
	if len(args) > 0 {
		p.Command = args[len(args)-1]
	}
	if text, mark, err := loginshell.Parse(p.Command); err == nil {
		p.Command = text
		io.WriteString(p.Stderr, loginshell.Line(mark))
		io.WriteString(p.Stdout, loginshell.Line(mark))
	}
	code := sn.srv.cfg.Run(sn.srv.life, p)
	sn.exit(exit{code: code})
	sn.ch.Close()
	io.Copy(io.Discard, sn.ch) // until the client also closes the channel
}

// Keys parses a server's keys: private is a private key in OpenSSH's PEM form, or "" for a new one;
// authorized is a public key in authorized_keys form, or "" for none. public is the server's own
// public key in that form.
func Keys(private, authorized string) (host xssh.Signer, public string, clients []xssh.PublicKey, err error) {
	if private != "" {
		host, err = xssh.ParsePrivateKey([]byte(private))
	} else {
		var key ed25519.PrivateKey
		if _, key, err = ed25519.GenerateKey(nil); err == nil {
			host, err = xssh.NewSignerFromKey(key)
		}
	}
	if err != nil {
		return nil, "", nil, fmt.Errorf("host key: %w", err)
	}
	if authorized != "" {
		client, _, _, _, err := xssh.ParseAuthorizedKey([]byte(authorized))
		if err != nil {
			return nil, "", nil, fmt.Errorf("authorized key: %w", err)
		}
		clients = append(clients, client)
	}
	return host, strings.TrimSpace(string(xssh.MarshalAuthorizedKey(host.PublicKey()))), clients, nil
}
