package cloud_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestUserData(t *testing.T) {
	pool := cloudtest.Info("p1")
	node := cloudtest.Request(t, driver.Query{}, driver.Offer{}, 0).Nodes[0]
	node.HostKey.Public += " root@maker"
	text, err := cloud.UserData(pool, node, true, map[string]any{"package_update": false})
	if err != nil || !strings.HasPrefix(text, "#cloud-config\n") {
		t.Fatalf("%q, %v", text, err)
	}
	var got struct {
		Authorized []string          `yaml:"ssh_authorized_keys"`
		Delete     bool              `yaml:"ssh_deletekeys"`
		Keys       map[string]string `yaml:"ssh_keys"`
		NoRoot     *bool             `yaml:"disable_root"`
		More       *bool             `yaml:"package_update"`
	}
	strict := yaml.NewDecoder(strings.NewReader(text)) // cloud-init reads user data as YAML
	strict.KnownFields(true)
	if err := strict.Decode(&got); err != nil {
		t.Fatalf("not what is due: %v: %s", err, text)
	}
	if !slices.Equal(got.Authorized, []string{cloudtest.PoolKey}) || got.NoRoot == nil || *got.NoRoot || got.More == nil || *got.More {
		t.Errorf("%+v", got)
	}
	public, _, _ := strings.Cut(node.HostKey.Public, " root")
	want := map[string]string{"ed25519_private": string(node.HostKey.Private), "ed25519_public": public}
	if !got.Delete || !maps.Equal(got.Keys, want) {
		t.Errorf("the host key: %v, %v", got.Delete, got.Keys)
	}
	for _, unwanted := range []string{pool.Owner, "comment", "maker", "redacted"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q is in it: %s", unwanted, text)
		}
	}

	text, err = cloud.UserData(pool, driver.NodeRequest{Name: "p1-0"}, false, nil)
	if want := "#cloud-config\n{\"ssh_authorized_keys\":[\"" + cloudtest.PoolKey + "\"]}\n"; text != want || err != nil {
		t.Errorf("without a host key: %q, %v", text, err)
	}
}
