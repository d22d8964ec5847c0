package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/gputrain/gputrain/internal/ssh"
)

// explain returns the error of a script, with the node's own message. Its kinds are those of the local file system:
// fs.ErrNotExist, fs.ErrPermission, syscall.ENOSPC.
func explain(about, said string, err error) error {
	var exit *ssh.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	said = strings.TrimSpace(said)
	first, _, _ := strings.Cut(said, "\n")
	has := func(text string) bool { return strings.Contains(said, text) }
	switch {
	case strconv.Itoa(exit.Code) == missing:
		return fmt.Errorf("%s on the node: %w", about, fs.ErrNotExist)
	case has("No space left on device"):
		return fmt.Errorf("%s on the node: %w; free some there, or ask for a bigger disk", about, syscall.ENOSPC)
	case has("Permission denied"), has("Read-only file system"), has("Operation not permitted"):
		return fmt.Errorf("%s on the node: %w (%s)", about, fs.ErrPermission, first)
	case first != "" && exit.Signal == "":
		return fmt.Errorf("%s on the node: %s", about, first)
	}
	return fmt.Errorf("%s on the node: %w", about, err)
}
