package fakecloud_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	xssh "golang.org/x/crypto/ssh"
)

const launch = "POST /api/v1/instance-operations/launch"

type server struct {
	id      string
	machine *fakecloud.Machine
}

// startCloud starts a small fake of a cloud with launch and list.
func startCloud(t *testing.T, authorizedKey string) *fakecloud.Server {
	api := fakecloud.Start(t, fakecloud.Config{
		Contracts:  []fakecloud.Contract{fakecloud.OpenAPI(t, "testdata/servers.json")},
		Authorized: fakecloud.Bearer("sk-test"),
	})
	servers := fakecloud.NewStore[server](api)
	api.Handle(launch, func(c *fakecloud.Call) fakecloud.Answer {
		s := server{
			id:      fmt.Sprintf("%032x", c.N),
			machine: fakecloud.NewMachine(t, fakecloud.MachineConfig{AuthorizedKey: authorizedKey, User: "ubuntu"}),
		}
		servers.Put(c, s.id, s)
		return fakecloud.Reply(200, map[string]any{"data": map[string]any{"instance_ids": []string{s.id}}})
	})
	api.Handle("GET /api/v1/instances", func(c *fakecloud.Call) fakecloud.Answer {
		list := []any{}
		for _, s := range servers.All(c) {
			list = append(list, map[string]any{"id": s.id, "ip": s.machine.PublicIP, "status": "active"})
		}
		return fakecloud.Reply(200, map[string]any{"data": list})
	})
	return api
}

// A test finds a server whose launch answer was lost, logs in to its machine and runs a command.
func TestFakeOfACloud(t *testing.T) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := xssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	api := startCloud(t, string(xssh.MarshalAuthorizedKey(key.PublicKey())))
	lost := api.Inject(fakecloud.Fault{Op: launch, After: true, Cut: true})

	body := `{"region_name":"us-west-3","instance_type_name":"gpu_1x_h100_pcie","ssh_key_names":["k"],"name":"gputrain-p7x2-n0"}`
	if err := call(t, api, "POST", "/api/v1/instance-operations/launch", body, nil); err == nil || lost.Hits() != 1 {
		t.Fatalf("the answer was to be lost: %v", err)
	}
	var list struct {
		Data []struct{ ID, IP string }
	}
	if err := call(t, api, "GET", "/api/v1/instances", "", &list); err != nil || len(list.Data) != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	addr := net.JoinHostPort(list.Data[0].IP, "22") // the API reports no port
	conn, err := fakecloud.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	sc, channels, requests, err := xssh.NewClientConn(conn, addr, &xssh.ClientConfig{
		User: "ubuntu", Auth: []xssh.AuthMethod{xssh.PublicKeys(key)}, HostKeyCallback: xssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
	client := xssh.NewClient(sc, channels, requests)
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := session.Output("echo on $USER"); err != nil || strings.TrimSpace(string(out)) != "on ubuntu" {
		t.Errorf("%q %v", out, err)
	}
}

func call(t *testing.T, api *fakecloud.Server, method, path, body string, out any) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, api.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer sk-test")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(out)
}
