package ssh

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	xssh "golang.org/x/crypto/ssh"
)

// UserKeys returns the keys of a user to log in with, in the order in which ssh(1) tries them: those of the agent that are also in
// the files, the agent's others if agent is true, and those of the files. A file may be a private key, the public half of one that
// the agent has, or a private key with a passphrase that the agent has; a certificate beside it, KEY-cert.pub, comes after it. What
// cannot be used is left out, as long as something else can be. The error is that of each file, and of the agent.
func UserKeys(files []string, withAgent bool) ([]xssh.Signer, error) {
	agents, failed := AgentSigners()
	if !withAgent {
		failed = nil
	}
	inAgent := func(key xssh.PublicKey) xssh.Signer {
		i := slices.IndexFunc(agents, func(s xssh.Signer) bool { return isSameKey(s.PublicKey(), key) })
		if i < 0 {
			return nil
		}
		return agents[i]
	}
	var first, last []xssh.Signer
	for _, name := range files {
		signer, agents, err := userKey(name, inAgent)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		signers := []xssh.Signer{signer}
		if cert, err := certified(name, signer); err != nil {
			failed = errors.Join(failed, err)
		} else if cert != nil {
			signers = append(signers, cert)
		}
		if agents {
			first = append(first, signers...)
		} else {
			last = append(last, signers...)
		}
	}
	all := first
	if withAgent {
		all = append(all, agents...)
	}
	var once []xssh.Signer
	for _, s := range append(all, last...) {
		if !slices.ContainsFunc(once, func(o xssh.Signer) bool { return isSameKey(o.PublicKey(), s.PublicKey()) }) {
			once = append(once, s)
		}
	}
	if len(once) == 0 {
		return nil, failed
	}
	return once, nil
}

// userKey returns the key of a file. agents says that the agent has it.
func userKey(name string, inAgent func(xssh.PublicKey) xssh.Signer) (signer xssh.Signer, agents bool, err error) {
	signer, err = LoadKey(name)
	if err == nil {
		if s := inAgent(signer.PublicKey()); s != nil {
			return s, true, nil
		}
		return signer, false, nil
	}
	if public := publicHalf(name, err); public != nil {
		if s := inAgent(public); s != nil {
			return s, true, nil
		}
	}
	return nil, false, err
}

// publicHalf returns the public key of a file that is no private key that can be used, or nil.
func publicHalf(name string, why error) xssh.PublicKey {
	if locked, ok := errors.AsType[*xssh.PassphraseMissingError](why); ok && locked.PublicKey != nil {
		return locked.PublicKey
	}
	file, err := expand(name)
	if err != nil {
		return nil
	}
	for _, name := range []string{file, strings.TrimSuffix(file, ".pub") + ".pub"} {
		if text, err := os.ReadFile(name); err == nil {
			if key, _, _, _, err := xssh.ParseAuthorizedKey(text); err == nil {
				return plain(key)
			}
		}
	}
	return nil
}

// certified returns the signer of the certificate beside a key's file, or nil if there is none.
func certified(name string, signer xssh.Signer) (xssh.Signer, error) {
	file, err := expand(strings.TrimSuffix(name, ".pub") + "-cert.pub")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("ssh certificate: %w", err)
	}
	key, _, _, _, err := xssh.ParseAuthorizedKey(text)
	cert, ok := key.(*xssh.Certificate)
	if err != nil || !ok {
		return nil, fmt.Errorf("ssh certificate %s is none", file)
	}
	s, err := xssh.NewCertSigner(cert, signer)
	if err != nil {
		return nil, fmt.Errorf("ssh certificate %s: %w", file, err)
	}
	return s, nil
}
