package reach

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	xssh "golang.org/x/crypto/ssh"
)

// The node may report the end of a shell before this side knows that it has hung up: the cause is returned all the same.
func TestHangUpSaysWhy(t *testing.T) {
	server := opensshtest.Start(t)
	client := ssh.New(ssh.Config{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", server.Addr)
		},
		User: server.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(server.Signer)}, HostKey: xssh.FixedHostKey(server.HostKey),
	})
	defer client.Close()
	if err := client.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, cause := &ssh.ExitError{Code: -1, Signal: "HUP"}, errors.New("the user left")
	for _, tt := range []struct {
		name    string
		hangsUp bool
		err     error
		want    error
	}{
		{"hung up", true, ended, cause},
		{"hung up as it ended well", true, nil, nil},
		{"killed on the node", false, ended, ended},
	} {
		s, err := client.Open(t.Context(), "exec cat")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		_, why, release := hangUpWith(ctx, s)
		if tt.hangsUp {
			cancel(cause)
		}
		if got := why(tt.err); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
		release()
		cancel(nil)
	}
}
