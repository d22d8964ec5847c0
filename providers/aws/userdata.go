package aws

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const (
	// maxUserData bounds user data before it is encoded.
	maxUserData = 16 << 10
	// A node that was not ended shuts itself down afterTTL after the pool's TTL.
	afterTTL = 10 * time.Minute
)

var (
	//go:embed unclaimed.sh
	unclaimedScript string
	//go:embed destruct.sh
	destructScript string
	//go:embed notice.sh
	noticeScript string
)

// userData returns a node's user data for cloud-init: its host key, the pool's key, and the
// deadlines that need no client. A shutdown terminates the machine.
//
// Every user of the account with permission to read the instance's user data, and every process
// on the node, can read the private host key. It serves this machine only.
func userData(req driver.Launch, node driver.NodeRequest, unclaimedFor time.Duration, now time.Time) (string, error) {
	public := pooltag.PublicKey(node.HostKey.Public)
	algorithm, ok := map[string]string{"ssh-ed25519": "ed25519", "ssh-rsa": "rsa", "ecdsa-sha2-nistp256": "ecdsa"}[strings.Split(public, " ")[0]]
	private := strings.TrimSpace(string(node.HostKey.Private))
	if !ok || private == "" {
		return "", fmt.Errorf("%w: %s has no host key of a type that cloud-init knows", driver.ErrInvalid, node.Name)
	}
	authorized := strings.TrimSpace(req.Pool.AuthorizedKey)
	if authorized == "" || strings.ContainsAny(authorized, "\n\r") {
		return "", fmt.Errorf("%w: the pool's public key is not one line in authorized_keys form", driver.ErrInvalid)
	}
	var b strings.Builder
	b.WriteString("#cloud-config\nssh_deletekeys: true\nssh_keys:\n")
	fmt.Fprintf(&b, "  %s_private: |\n", algorithm)
	for line := range strings.Lines(private) {
		b.WriteString("    " + strings.TrimRight(line, "\r\n") + "\n")
	}
	fmt.Fprintf(&b, "  %s_public: %s\n", algorithm, quoted(public))
	fmt.Fprintf(&b, "ssh_authorized_keys:\n  - %s\nruncmd:\n", quoted(authorized))
	unclaimed := fmt.Sprintf("node=%s wait=%d\n%s", cloud.Quote(node.Name), int(math.Ceil(unclaimedFor.Seconds())), cloud.Script(unclaimedScript))
	b.WriteString("  - " + command("systemd-run", "--unit=gputrain-unclaimed", "sh", "-c", unclaimed) + "\n")
	if !req.Pool.Expires.IsZero() {
		left := int(math.Ceil((max(req.Pool.Expires.Sub(now), 0) + afterTTL).Seconds()))
		b.WriteString("  - " + command("systemd-run", "--unit=gputrain-last", fmt.Sprintf("--on-active=%d", left), "shutdown", "-h", "now") + "\n")
	}
	if b.Len() > maxUserData {
		return "", fmt.Errorf("%w: the user data has %d bytes; EC2 takes %d", driver.ErrInvalid, b.Len(), maxUserData)
	}
	return b.String(), nil
}

// command returns a command in YAML, as JSON, which YAML includes.
func command(words ...string) string {
	var all []string
	for _, w := range words {
		all = append(all, quoted(w))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return `""` // a string is always JSON
	}
	return string(text)
}
