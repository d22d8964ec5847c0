package aws

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// maxUserData is how long user data may be, before it is encoded.
	maxUserData = 16 << 10
	// afterTTL is how long after a pool's TTL a node ends itself that has not been ended.
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

// userData is a node's user data for cloud-init: its host key, the pool's key, and the
// deadlines that need no client. To shut down is to be terminated.
//
// The private host key can be read by all who may read the instance's user data, and by
// every process on the node. It is made for this one machine.
func (d *driver) userData(req gputrain.LaunchRequest, node gputrain.NodeRequest, now time.Time) (string, error) {
	public := publicKey(node.HostKey)
	algorithm, ok := map[string]string{"ssh-ed25519": "ed25519", "ssh-rsa": "rsa", "ecdsa-sha2-nistp256": "ecdsa"}[strings.Split(public, " ")[0]]
	private := strings.TrimSpace(string(node.HostKey.Private))
	if !ok || private == "" {
		return "", fmt.Errorf("%w: %s has no host key that cloud-init knows", gputrain.ErrInvalid, node.Name)
	}
	authorized := strings.TrimSpace(req.Pool.AuthorizedKey)
	if authorized == "" || strings.ContainsAny(authorized, "\n\r") {
		return "", fmt.Errorf("%w: the pool's public key is not one line in authorized_keys form", gputrain.ErrInvalid)
	}
	var b strings.Builder
	b.WriteString("#cloud-config\nssh_deletekeys: true\nssh_keys:\n")
	fmt.Fprintf(&b, "  %s_private: |\n", algorithm)
	for line := range strings.Lines(private) {
		b.WriteString("    " + strings.TrimRight(line, "\r\n") + "\n")
	}
	fmt.Fprintf(&b, "  %s_public: %s\n", algorithm, quoted(public))
	fmt.Fprintf(&b, "ssh_authorized_keys:\n  - %s\nruncmd:\n", quoted(authorized))
	unclaimed := fmt.Sprintf("node=%s wait=%d\n%s", cloud.Quote(node.Name), int(math.Ceil(d.cfg.InstanceTimeout.Seconds())), cloud.Script(unclaimedScript))
	b.WriteString("  - " + command("systemd-run", "--unit=gputrain-unclaimed", "sh", "-c", unclaimed) + "\n")
	if !req.Pool.Expires.IsZero() {
		left := int(math.Ceil((max(req.Pool.Expires.Sub(now), 0) + afterTTL).Seconds()))
		b.WriteString("  - " + command("systemd-run", "--unit=gputrain-last", fmt.Sprintf("--on-active=%d", left), "shutdown", "-h", "now") + "\n")
	}
	if b.Len() > maxUserData {
		return "", fmt.Errorf("%w: user data of %d bytes; EC2 takes %d", gputrain.ErrInvalid, b.Len(), maxUserData)
	}
	return b.String(), nil
}

// command is a command as YAML, which takes JSON.
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

// SelfDestruct returns shell text that shuts the machine down, which terminates it.
func (d *driver) SelfDestruct(gputrain.Instance) string { return cloud.Script(destructScript) }

// PreemptionWatch returns shell text that asks the machine's metadata service for an
// interruption.
func (d *driver) PreemptionWatch(gputrain.Instance) string { return cloud.Script(noticeScript) }
