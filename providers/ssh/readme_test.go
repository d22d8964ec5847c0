package ssh

import (
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/internal/readme"
)

func TestReadme(t *testing.T) {
	srv := opensshtest.Start(t)
	readme.Check(t, Config{Hosts: []Host{{Addr: srv.Addr, User: srv.User, KeyFile: srv.KeyFile, HostKey: xssh.FingerprintSHA256(srv.HostKey)}}})
}
