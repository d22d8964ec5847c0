package cloud

import (
	"encoding/json"

	"github.com/gputrain/gputrain"
)

// UserData is cloud-init's configuration of a machine: its host key, which the pool holds
// it to, and the pool's public key for logging in. The text has a secret in it, the private
// host key, which proves that one machine's identity and nothing else.
//
// Its form is "#cloud-config" before JSON, which is YAML too; the modules are ssh and
// users-groups: https://cloudinit.readthedocs.io/en/latest/reference/modules.html#ssh
//
// root says that root is logged in to, which cloud-init otherwise forbids. more adds to
// the configuration.
func UserData(pool gputrain.PoolInfo, n gputrain.NodeRequest, root bool, more map[string]any) (string, error) {
	config := map[string]any{"ssh_authorized_keys": []string{publicKey(pool.AuthorizedKey)}}
	if n.HostKey.Private != "" {
		config["ssh_deletekeys"] = true
		config["ssh_keys"] = map[string]string{
			"ed25519_private": string(n.HostKey.Private), "ed25519_public": publicKey(n.HostKey.Public),
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
