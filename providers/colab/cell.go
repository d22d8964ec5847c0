package colab

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/sshkey"
)

//go:embed cell.py
var cell string

// keyLine is the line of the cell that the key goes into.
const keyLine = `PUBLIC_KEY = ""`

// BootstrapCell returns the text of the notebook's cell that lets publicKey in: the
// one line of a .pub file. Empty has the cell ask for it. The cell does nothing
// until its user has set I_MAY_AUTOMATE_THIS_RUNTIME there: see the package's
// documentation for what Google's terms say.
func BootstrapCell(publicKey string) (string, error) {
	key := strings.TrimSpace(publicKey)
	if key == "" {
		return cell, nil
	}
	if err := checkPublicKey(key); err != nil {
		return "", &gputrain.Error{
			Provider: provider, Op: "make the cell", Kind: gputrain.ErrInvalid, Err: err,
			Hint: "give the one line of a .pub file, as ssh-keygen makes it",
		}
	}
	literal, err := json.Marshal(key) // of ASCII, which Python reads alike
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
		return errors.New("the public key has a line break, or a character that is not ASCII, in its comment perhaps")
	}
	if err := sshkey.CheckPublic(key); err != nil {
		return fmt.Errorf("the public key %w", err)
	}
	return nil
}
