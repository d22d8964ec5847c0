package colab

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gputrain/gputrain/internal/sshkey"
	"github.com/gputrain/gputrain/providers/driver"
)

//go:embed cell.py
var cell string

// keyLine is the cell's line for the key.
const keyLine = `PUBLIC_KEY = ""`

// BootstrapCell returns the text of the notebook's cell that authorizes publicKey: the one line
// of a .pub file. If it is empty, the cell asks for it. The cell does nothing until its user
// has set I_MAY_AUTOMATE_THIS_RUNTIME there: see Google's terms in the package's documentation.
func BootstrapCell(publicKey string) (string, error) {
	key := strings.TrimSpace(publicKey)
	if key == "" {
		return cell, nil
	}
	if err := checkPublicKey(key); err != nil {
		return "", &driver.Error{
			Provider: provider, Op: "make the cell", Kind: driver.ErrInvalid, Err: err,
			Hint: "pass the one line of a .pub file from ssh-keygen",
		}
	}
	literal, err := json.Marshal(key) // ASCII, which Python reads in the same way
	if err != nil {
		return "", err
	}
	return strings.Replace(cell, keyLine, "PUBLIC_KEY = "+string(literal), 1), nil
}

func checkPublicKey(key string) error {
	switch {
	case strings.Contains(key, "PRIVATE KEY"):
		return errors.New("this is a private key, which must not leave this machine")
	case strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }):
		return errors.New("the public key has a line break or a non-ASCII character, perhaps in its comment")
	}
	if err := sshkey.CheckPublic(key); err != nil {
		return fmt.Errorf("the public key %w", err)
	}
	return nil
}
