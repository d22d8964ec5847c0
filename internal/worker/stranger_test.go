//go:build unix

package worker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/strangertest"
)

// Another user can neither connect to a worker nor serve in its place.
func TestStrangersSockets(t *testing.T) {
	strangertest.Need(t)
	shared := strangertest.Shared(t)
	own := filepath.Join(shared, "own")
	if err := os.Mkdir(own, 0o755); err != nil { // others can read it, as in an open home
		t.Fatal(err)
	}
	socket := filepath.Join(own, "worker")
	l, err := listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip(err)
	}
	dial := `perl -e 'my $s; socket($s, 1, 1, 0) && connect($s, pack "S a*", 1, $ARGV[0]) and print "connected"; exit 0' "$1"`
	if got := strangertest.Run(t, dial, socket); got != "" {
		t.Error("another user could connect")
	}

	// Sockets of the other user: one in that user's folder, and one in a folder for all.
	for _, path := range []string{filepath.Join(shared, "theirs", "worker"), filepath.Join(shared, "worker")} {
		strangertest.Run(t, `mkdir -p -m 777 "${1%/*}"; perl -e 'my $s; socket($s, 1, 1, 0) && bind($s, pack "S a*", 1, $ARGV[0]) && listen($s, 1) or exit 1' "$1" && chmod 777 "$1"`, path)
		for what, err := range map[string]error{
			"connected to": func() error { _, err := dialSocket(path); return err }(),
			"listens on":   func() error { _, err := listen(path); return err }(),
		} {
			if err == nil || !strings.Contains(err.Error(), "another user's") && !strings.Contains(err.Error(), "others can write") {
				t.Errorf("%s %s: %v", what, path, err)
			}
		}
	}
}
