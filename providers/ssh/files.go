package ssh

import (
	"bytes"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gputrain/gputrain/internal/sshkey"
	"github.com/gputrain/gputrain/providers/driver"
)

// defaultKeys are the names in ~/.ssh that ssh(1) looks for.
var defaultKeys = []string{"id_ed25519", "id_ecdsa", "id_rsa"}

// identity chooses the credential for logins: a key file, or the agent.
func identity(keyFile string) (file string, agent bool, err error) {
	if keyFile != "" {
		if file, err = expand(keyFile); err != nil {
			return "", false, err
		}
		return file, false, checkKeyFile(file)
	}
	if os.Getenv("SSH_AUTH_SOCK") != "" {
		return "", true, nil
	}
	for _, name := range defaultKeys {
		if file, err = expand("~/.ssh/" + name); err != nil {
			return "", false, err
		}
		if _, err := os.Stat(file); err == nil {
			return file, false, checkKeyFile(file)
		}
	}
	return "", false, &fault{
		kind: driver.ErrAuth,
		msg:  "no SSH agent (SSH_AUTH_SOCK is not set) and no key in ~/.ssh",
		hint: "set KeyFile, or make a key with ssh-keygen and authorize it on the host with ssh-copy-id",
	}
}

// checkKeyFile refuses a file that cannot be a private key, or that needs a passphrase, as the
// user cannot be asked for it at a reconnect.
func checkKeyFile(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return unreadable("KeyFile", file, err, "name the private key that the host lets in")
	}
	block, _ := pem.Decode(data)
	switch {
	case block == nil && bytes.HasPrefix(data, []byte("ssh-")):
		return auth("name the file without .pub", "KeyFile %s is a public key", file)
	case block == nil || !strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return auth("make one with ssh-keygen", "KeyFile %s is not a private key in PEM form", file)
	case encrypted(block):
		return auth("add it to the agent with ssh-add, and leave KeyFile empty", "KeyFile %s needs a passphrase", file)
	}
	return nil
}

func auth(hint, format string, args ...any) error {
	err := invalid(hint, format, args...).(*fault)
	err.kind = driver.ErrAuth
	return err
}

// encrypted reports whether a private key needs a passphrase. OpenSSH's own form begins with a
// magic string and the name of a cipher.
func encrypted(block *pem.Block) bool {
	if rest, ok := bytes.CutPrefix(block.Bytes, []byte("openssh-key-v1\x00")); ok {
		cipher, _, ok := sshkey.CutString(rest)
		return ok && cipher != "none"
	}
	return block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED")
}

// knownHosts returns the known_hosts file to use, which must exist.
func knownHosts(file string) (string, error) {
	if file == "" {
		file = "~/.ssh/known_hosts"
	}
	file, err := expand(file)
	if err != nil {
		return "", err
	}
	f, err := os.Open(file)
	if err != nil {
		return "", unreadable("HostKey is empty, and KnownHosts", file, err,
			"set HostKey to the host's SHA256: fingerprint, or connect to it once with ssh")
	}
	return file, f.Close()
}

func unreadable(field, file string, err error, hint string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return invalid(hint, "%s: there is no file %s", field, file)
	case errors.Is(err, fs.ErrPermission):
		return invalid("let this user read it", "%s: %s may not be read", field, file)
	}
	return invalid(hint, "%s: %v", field, err)
}

// expand replaces "~" at the start of a path with the user's home.
func expand(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok {
		return path, nil
	}
	if rest != "" && !os.IsPathSeparator(rest[0]) {
		return "", invalid("write the full path", "%s: ~ can stand only for the user's own home", path)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", invalid("write the full path", "%s: %v", path, err)
	}
	return filepath.Join(home, rest), nil
}
