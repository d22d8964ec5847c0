package kubernetes

import (
	"cmp"
	_ "embed"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/internal/cloud"
)

var (
	//go:embed node.sh
	nodeScript string
	//go:embed sshd_config
	sshdConfig string
)

const (
	home      = "/home/" + userName
	keyPasswd = "passwd"
)

// secretOf returns what a node starts with. The Job owns it, so that it goes with the Job. Nothing
// of it is in the pod's spec, which others can read.
func (c recipe) secretOf(order cloud.Order, jobUID string) secret {
	data := map[string][]byte{
		"host_key":        []byte(strings.TrimRight(string(order.Node.HostKey.Private), "\n") + "\n"),
		"authorized_keys": []byte(strings.TrimSpace(order.Pool.AuthorizedKey) + "\n"),
		"sshd_config":     []byte("Port " + strconv.Itoa(sshPort) + "\n" + sshdConfig),
		"start.sh":        []byte(c.startScript(order)),
	}
	if c.Unprivileged {
		id := strconv.Itoa(userID)
		data[keyPasswd] = []byte("root:x:0:0:root:/root:/bin/sh\n" + userName + ":x:" + id + ":" + id + "::" + home + ":/bin/sh\n")
	}
	labels, _ := c.marks(order)
	return secret{
		APIVersion: "v1", Kind: "Secret", Type: "Opaque",
		Metadata: meta{
			Name: order.Node.Name, Labels: map[string]string{keyPool: labels[keyPool], keyNode: labels[keyNode], keyMade: madeBy},
			OwnerReferences: []owner{{APIVersion: "batch/v1", Kind: "Job", Name: order.Node.Name, UID: jobUID}},
		},
		Data: data,
	}
}

// startScript returns what process 1 of a node runs. A program must take the node over within the
// pool's lease.
func (c recipe) startScript(order cloud.Order) string {
	seconds := func(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
	return "user=" + c.user() + "\ngrace=" + seconds(grace) + "\nnode=" + cloud.Quote(order.Node.Name) +
		"\nlease=" + seconds(cmp.Or(order.Pool.Lease, longestLife)) + "\n" + nodeScript
}

// secretMode lets the node's user read the Secret's files, by their group if that is not root.
func (c recipe) secretMode() int {
	if c.Unprivileged {
		return 0o444 // also /etc/passwd; the only user of the pod
	}
	return 0o400
}
