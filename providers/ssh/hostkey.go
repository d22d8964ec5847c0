package ssh

import (
	"encoding/base64"
	"strings"
)

// checkHostKey refuses what is neither a SHA256: fingerprint nor a public key
// in authorized_keys form.
func checkHostKey(s string) error {
	const hint = "on the host, ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub prints its SHA256: fingerprint"
	if sum, ok := strings.CutPrefix(s, "SHA256:"); ok {
		if raw, err := base64.RawStdEncoding.Strict().DecodeString(sum); err != nil || len(raw) != 32 {
			return invalid(hint, "HostKey %q is not a whole SHA256: fingerprint, which has 43 characters after the colon", s)
		}
		return nil
	}
	if strings.HasPrefix(s, "MD5:") {
		return invalid(hint, "HostKey is an MD5 fingerprint, which proves nothing any more")
	}
	fields := strings.Fields(s)
	if len(fields) < 2 || strings.ContainsAny(s, "\r\n") {
		return invalid(hint, "HostKey is neither a SHA256: fingerprint nor a public key in one line")
	}
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	if kind, rest, ok := cutString(blob); err != nil || !ok || kind != fields[0] || len(rest) == 0 {
		return invalid(hint, "HostKey %q is not a whole public key", fields[0]+" …")
	}
	return nil
}
