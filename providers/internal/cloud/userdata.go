package cloud

import (
	"encoding/json"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// UserData returns cloud-init's configuration of a machine: its host key, which the pool
// expects, and the pool's public key for logins. The text contains a secret: the private host
// key, which proves only that machine's identity.
//
// It is "#cloud-config" followed by JSON, which is YAML too; the modules are ssh and
// users-groups: https://cloudinit.readthedocs.io/en/latest/reference/modules.html#ssh
//
// root allows logins as root, which cloud-init otherwise forbids. more adds to the
// configuration.
func UserData(pool driver.PoolInfo, n driver.NodeRequest, root bool, more map[string]any) (string, error) {
	config := map[string]any{"ssh_authorized_keys": []string{pooltag.PublicKey(pool.AuthorizedKey)}}
	if n.HostKey.Private != "" {
		config["ssh_deletekeys"] = true
		config["ssh_keys"] = map[string]string{
			"ed25519_private": string(n.HostKey.Private), "ed25519_public": pooltag.PublicKey(n.HostKey.Public),
		}
	}
	if root {
		config["disable_root"] = false
	}
	for k, v := range more {
		config[k] = v
	}
	text, err := json.Marshal(config)
	return "#cloud-config\n" + string(text) + "\n", err
}
