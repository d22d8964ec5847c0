package ssh

import "github.com/gputrain/gputrain/internal/sshkey"

// checkHostKey refuses a text that is neither a SHA256: fingerprint nor a public key in
// authorized_keys form.
func checkHostKey(s string) error {
	if _, err := sshkey.Fingerprint(s); err != nil {
		return invalid("on the host, ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub prints its SHA256: fingerprint", "HostKey %v", err)
	}
	return nil
}
