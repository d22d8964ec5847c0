package colab_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/colab"
	"github.com/gputrain/gputrain/providers/driver"
)

// The values in testdata/endpoint.json.
const (
	exampleKey         = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDNyNGLRG6o70LJhEEwiC2vXdZJr5QXvSgNxJIZjNmC4"
	exampleFingerprint = "SHA256:mxOsLnbHgAba+NLrDmMi6BANO1ckgGA7jmbIOGFbZtU"
)

var example = colab.Endpoint{Host: "0.tcp.ngrok.io", Port: 14022, User: "root", HostKey: exampleKey}

// withAgent sets an SSH agent for logins. Open does not contact it.
func withAgent(t *testing.T) {
	t.Helper()
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(t.TempDir(), "agent"))
}

func TestOpenRefuses(t *testing.T) {
	withAgent(t)
	sealed := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(sealed, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*colab.Config)) colab.Config {
		c := colab.Config{Endpoint: example}
		change(&c)
		return c
	}
	host := func(h string) colab.Config { return with(func(c *colab.Config) { c.Endpoint.Host = h }) }
	port := func(p int) colab.Config { return with(func(c *colab.Config) { c.Endpoint.Port = p }) }
	pin := func(k string) colab.Config { return with(func(c *colab.Config) { c.Endpoint.HostKey = k }) }
	for _, tt := range []struct {
		name string
		c    colab.Config
		kind error
		says string
	}{
		{"nothing", colab.Config{}, driver.ErrInvalid, "BootstrapCell"},
		{"no host", host(""), driver.ErrInvalid, "Host is empty"},
		{"a URL", host("tcp://0.tcp.ngrok.io"), driver.ErrInvalid, "not only a host name"},
		{"with its port", host("0.tcp.ngrok.io:14022"), driver.ErrInvalid, "into Endpoint.Port"},
		{"with its user", host("root@0.tcp.ngrok.io"), driver.ErrInvalid, "not only a host name"},
		{"an option", host("-oProxyCommand=x"), driver.ErrInvalid, "not only a host name"},
		{"a line break", host("a\nb"), driver.ErrInvalid, "not only a host name"},
		{"no port", port(0), driver.ErrInvalid, "Port 0"},
		{"too high a port", port(65536), driver.ErrInvalid, "Port 65536"},
		{"no host key", pin(""), driver.ErrInvalid, "HostKey is empty"},
		{"white space for a host key", pin(" \n"), driver.ErrInvalid, "HostKey is empty"},
		{"half a host key", pin(exampleKey[:40]), driver.ErrInvalid, "HostKey"},
		{"half a fingerprint", pin("SHA256:mxOs.."), driver.ErrInvalid, "43 characters"},
		{"no such key file", with(func(c *colab.Config) { c.KeyFile = "/no/such/key" }), driver.ErrInvalid, "KeyFile: there is no file /no/such/key"},
		{"text for a key file", with(func(c *colab.Config) { c.KeyFile = sealed }), driver.ErrAuth, "ssh-keygen"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.c.Open(t.Context())
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), "colab: open: ") {
				t.Errorf("got %v\nwant colab's %q and %q", err, tt.kind, tt.says)
			}
			if strings.Contains(err.Error(), "Hosts") {
				t.Errorf("%v speaks of what this provider does not have", err)
			}
		})
	}
}

func TestOpenTakes(t *testing.T) {
	withAgent(t)
	for _, e := range []colab.Endpoint{
		example,
		{Host: "localhost", Port: 1, HostKey: exampleFingerprint}, // cloudflared's end
		{Host: "2001:db8::1", Port: 65535, HostKey: exampleKey + " gputrain-colab\n"},
	} {
		d, err := colab.Config{Endpoint: e}.Open(t.Context())
		if err != nil {
			t.Errorf("%+v: %v", e, err)
			continue
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// ParseEndpoint reads a document, and refuses damaged ones.
func TestParseEndpoint(t *testing.T) {
	var sample map[string]any
	b, err := os.ReadFile("testdata/endpoint.json")
	if err == nil {
		err = json.Unmarshal(b, &sample)
	}
	if err != nil {
		t.Fatal(err)
	}
	parse := func(change map[string]any) (colab.Endpoint, error) {
		document := map[string]any{}
		for k, v := range sample {
			document[k] = v
		}
		for k, v := range change {
			document[k] = v
		}
		b, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		return colab.ParseEndpoint(b)
	}
	for _, more := range []map[string]any{nil, {"tunnel": "of another kind"}, {"host_key_sha256": ""}} {
		if got, err := parse(more); got != example || err != nil {
			t.Errorf("with %v: got %+v, %v; want %+v", more, got, err, example)
		}
	}
	for _, tt := range []struct {
		change map[string]any
		says   string
	}{
		{map[string]any{"version": 2}, "update gputrain"},
		{map[string]any{"version": 0}, "no version"},
		{map[string]any{"provider": "ssh"}, `its provider is "ssh"`},
		{map[string]any{"host": ""}, "Host is empty"},
		{map[string]any{"port": 0}, "Port 0"},
		{map[string]any{"port": "22"}, "one line of JSON"},
		{map[string]any{"host_key": ""}, "HostKey is empty"},
		{map[string]any{"host_key": "ssh-ed25519 AAAA"}, "whole public key"},
		{map[string]any{"host_key_sha256": "SHA256:jOzoyCtCFEPeHYjYxxSFFzvBt4yhpyTHtSmlQKkqrF8"}, "host_key has the fingerprint " + exampleFingerprint},
	} {
		if got, err := parse(tt.change); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(fmt.Sprint(err), tt.says) {
			t.Errorf("with %v: got %+v, %v; want a word on %q", tt.change, got, err, tt.says)
		}
	}
	if _, err := colab.ParseEndpoint([]byte("endpoint := colab.Endpoint{")); err == nil || !strings.Contains(err.Error(), "one line of JSON") {
		t.Errorf("Go for JSON: %v", err)
	}
}

// Open accepts every Endpoint that ParseEndpoint returns.
func FuzzParseEndpoint(f *testing.F) {
	f.Add([]byte(`{"version":1,"provider":"colab","host":"h","port":1,"user":"root","host_key":"` + exampleKey + `"}`))
	f.Add([]byte(`{"version":1,"provider":"colab","host":"::1","port":1,"host_key":"` + exampleFingerprint + `"}`))
	f.Setenv("SSH_AUTH_SOCK", "/no/agent")
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := colab.ParseEndpoint(b)
		if err != nil {
			return
		}
		if _, err := (colab.Config{Endpoint: e}).Open(t.Context()); err != nil {
			t.Errorf("%q is read as %+v, which Open refuses: %v", b, e, err)
		}
	})
}
