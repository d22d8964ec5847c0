package ssh

import (
	"bytes"
	"cmp"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gputrain/gputrain/internal/sshkey"
	"github.com/gputrain/gputrain/providers/driver"
)

// defaultKeys are the names in ~/.ssh that ssh(1) looks for, in its order.
var defaultKeys = []string{"id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"}

// identity chooses the credentials for logins: a key file or, as ssh(1) has it, the agent and the keys of ~/.ssh.
func identity(keyFile string) (file string, others []string, agent bool, err error) {
	hasAgent := os.Getenv("SSH_AUTH_SOCK") != ""
	if keyFile != "" {
		if file, err = expand(keyFile); err != nil {
			return "", nil, false, err
		}
		return file, nil, false, checkKeyFile(file, hasAgent)
	}
	var unusable error
	for _, name := range defaultKeys {
		if file, err = expand("~/.ssh/" + name); err != nil {
			return "", nil, false, err
		}
		if _, err := os.Stat(file); err != nil {
			continue
		}
		if err := checkKeyFile(file, hasAgent); err != nil {
			unusable = cmp.Or(unusable, err)
			continue
		}
		others = append(others, file)
	}
	switch {
	case hasAgent || len(others) > 0:
		return "", others, true, nil
	case unusable != nil:
		return "", nil, false, unusable
	}
	return "", nil, false, &fault{
		kind: driver.ErrAuth,
		msg:  "no SSH agent (SSH_AUTH_SOCK is not set) and no key in ~/.ssh",
		hint: "set KeyFile, or make a key with ssh-keygen and authorize it on the host with ssh-copy-id",
	}
}

// checkKeyFile refuses a file that cannot be a private key, or that needs a passphrase, as the user cannot be asked for it at a
// reconnect. With an agent the file may be locked, or the public half: the agent may have the key.
func checkKeyFile(file string, hasAgent bool) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && hasAgent {
		if _, err := os.Stat(file + ".pub"); err == nil {
			return nil
		}
	}
	if err != nil {
		return unreadable("KeyFile", file, err, "name the private key that the host lets in")
	}
	block, _ := pem.Decode(data)
	switch isPublic := block == nil && sshkey.CheckPublic(strings.TrimSpace(string(data))) == nil; {
	case isPublic && hasAgent:
	case isPublic || block == nil && bytes.HasPrefix(data, []byte("ssh-")):
		return auth("name the file without .pub", "KeyFile %s is a public key", file)
	case block == nil || !strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return auth("make one with ssh-keygen", "KeyFile %s is not a private key in PEM form", file)
	case encrypted(block) && !hasAgent:
		return auth("add it to the agent with ssh-add; KeyFile may stay", "KeyFile %s needs a passphrase", file)
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

// knownHosts returns the known_hosts file to use, which must exist, and warnings of lines in it that cannot be read. The user's
// own is read with those beside it that ssh(1) reads, of which one must exist.
func knownHosts(file string) (string, []string, error) {
	if file == "" {
		file = "~/.ssh/known_hosts"
	}
	file, err := expand(file)
	if err != nil {
		return "", nil, err
	}
	var warnings []string
	for _, one := range sshkey.KnownHostsFiles(file) {
		text, err := os.ReadFile(one)
		if err != nil {
			return "", nil, unreadable("HostKey is empty, and KnownHosts", one, err,
				"set HostKey to the host's SHA256: fingerprint, or connect to it once with ssh")
		}
		_, unread := sshkey.KnownHosts(text)
		for i, line := range unread {
			if i == mostUnread {
				warnings = append(warnings, fmt.Sprintf("%d more lines of %s cannot be read", len(unread)-i, one))
				break
			}
			warnings = append(warnings, fmt.Sprintf("line %d of %s cannot be read; the others count", line, one))
		}
	}
	return file, warnings, nil
}

// mostUnread bounds how many odd lines of a file are told one by one.
const mostUnread = 5

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
