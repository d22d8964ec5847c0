package ssh

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// agentTimeout bounds one conversation with the agent. It is long, because an
// agent may ask its user.
const agentTimeout = time.Minute

// AgentSigners returns the keys of the user's SSH agent, found by SSH_AUTH_SOCK. Each signature asks the agent again:
// no connection to it is held. A server counts every key that is offered and allows few (six by default): the caller
// puts the keys that fit best first in its one xssh.PublicKeys.
func AgentSigners() ([]xssh.Signer, error) {
	socket := os.Getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return nil, errors.New("ssh agent: SSH_AUTH_SOCK is not set: start one (eval $(ssh-agent); ssh-add), or name a key file")
	}
	var signers []xssh.Signer
	err := askAgent(socket, func(a agent.ExtendedAgent) error {
		keys, err := a.List()
		for _, k := range keys {
			// The listed key has a type that is not an algorithm's; the parsed one has.
			public, err := xssh.ParsePublicKey(k.Blob)
			if err != nil {
				continue // of a kind that this program does not support
			}
			signers = append(signers, &agentSigner{socket: socket, public: public})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(signers) == 0 {
		return nil, fmt.Errorf("ssh agent at %s has no keys: add one with ssh-add", socket)
	}
	return signers, nil
}

// askAgent connects to the agent for one conversation.
func askAgent(socket string, ask func(agent.ExtendedAgent) error) error {
	conn, err := net.DialTimeout("unix", socket, agentTimeout)
	if err != nil {
		return fmt.Errorf("ssh agent does not answer at SSH_AUTH_SOCK (has it ended?): %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(agentTimeout)); err != nil {
		return fmt.Errorf("ssh agent: %w", err)
	}
	if err := ask(agent.NewClient(conn)); err != nil {
		return fmt.Errorf("ssh agent at %s: %w", socket, err)
	}
	return nil
}

// An agentSigner signs with a key that only the agent has.
type agentSigner struct {
	socket string
	public xssh.PublicKey
}

func (s *agentSigner) PublicKey() xssh.PublicKey { return s.public }

// Sign signs with the key's own algorithm.
func (s *agentSigner) Sign(rand io.Reader, data []byte) (*xssh.Signature, error) {
	return s.SignWithAlgorithm(rand, data, "")
}

// SignWithAlgorithm signs with one of the algorithms of the key.
func (s *agentSigner) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (signature *xssh.Signature, err error) {
	var flags agent.SignatureFlags
	switch algorithm {
	case xssh.KeyAlgoRSASHA256, xssh.CertAlgoRSASHA256v01:
		flags = agent.SignatureFlagRsaSha256
	case xssh.KeyAlgoRSASHA512, xssh.CertAlgoRSASHA512v01:
		flags = agent.SignatureFlagRsaSha512
	}
	err = askAgent(s.socket, func(a agent.ExtendedAgent) error {
		signature, err = a.SignWithFlags(s.public, data, flags)
		return err
	})
	return signature, err
}
