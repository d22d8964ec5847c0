package keyring

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/gputrain/gputrain/internal/secretref"
)

const (
	servicePath    = dbus.ObjectPath("/org/freedesktop/secrets")
	collectionPath = dbus.ObjectPath("/org/freedesktop/secrets/aliases/default")
	itemPath       = dbus.ObjectPath("/org/freedesktop/secrets/collection/login/1")
	sessionPath    = dbus.ObjectPath("/org/freedesktop/secrets/session/1")
)

// A secretService has one secret, in the words of the Secret Service API.
type secretService struct{ attributes, secret string }

func (*secretService) Get(string, string) (dbus.Variant, *dbus.Error) {
	return dbus.MakeVariant([]dbus.ObjectPath{}), nil
}

func (*secretService) OpenSession(string, dbus.Variant) (dbus.Variant, dbus.ObjectPath, *dbus.Error) {
	return dbus.MakeVariant(""), sessionPath, nil
}

func (*secretService) Unlock(paths []dbus.ObjectPath) ([]dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
	return paths, "/", nil
}

func (s *secretService) SearchItems(attributes map[string]string) ([]dbus.ObjectPath, *dbus.Error) {
	if attributes["service"]+" "+attributes["username"] != s.attributes {
		return nil, nil
	}
	return []dbus.ObjectPath{itemPath}, nil
}

type secretValue struct {
	Session     dbus.ObjectPath
	Parameters  []byte
	Value       []byte
	ContentType string
}

func (s *secretService) GetSecret(session dbus.ObjectPath) (secretValue, *dbus.Error) {
	return secretValue{session, []byte{}, []byte(s.secret), "text/plain"}, nil
}

func (*secretService) Close() *dbus.Error { return nil }

// TestSession asks a Secret Service over a real D-Bus session.
func TestSession(t *testing.T) {
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("no dbus-daemon on this machine: install dbus-daemon")
	}
	cmd := exec.CommandContext(t.Context(), daemon, "--session", "--nofork", "--print-address", "--address=unix:path="+filepath.Join(t.TempDir(), "bus"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill() // with which the client's connection ends too
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", address)
	if _, err := secretref.Resolve(t.Context(), "store://gputrain/lambda"); err == nil || !strings.Contains(err.Error(), "is one running") {
		t.Errorf("a session without a keyring: %v", err)
	}

	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	service := &secretService{attributes: "gputrain lambda", secret: "hunter2"}
	for path, name := range map[dbus.ObjectPath]string{
		servicePath: "org.freedesktop.Secret.Service", collectionPath: "org.freedesktop.Secret.Collection",
		itemPath: "org.freedesktop.Secret.Item", sessionPath: "org.freedesktop.Secret.Session",
	} {
		if err := conn.Export(service, path, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Export(service, servicePath, "org.freedesktop.DBus.Properties"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.RequestName("org.freedesktop.secrets", dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	if got, err := secretref.Resolve(t.Context(), "store://gputrain/lambda"); got != "hunter2" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := secretref.Resolve(t.Context(), "store://gputrain/vastai"); err == nil || !strings.Contains(err.Error(), "secret-tool store") {
		t.Errorf("what it does not have: %v", err)
	}
}
