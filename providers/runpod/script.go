package runpod

import (
	_ "embed"
	"encoding/base64"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
)

var (
	//go:embed start.sh
	startScript string
	//go:embed destruct.sh
	destructScript string
)

// afterTTL is how long after a pool's TTL what it has left is ended by others than
// its program and its nodes.
const afterTTL = 10 * time.Minute

// startCommand is what a pod runs. RunPod splits it into words, and knows quotes only
// around what has none in it. The script is in a folder to which root alone writes.
func startCommand() string {
	const path = "/run/gputrain-start"
	return "sh -c 'mkdir -p /run&&echo " + base64.StdEncoding.EncodeToString([]byte(startScript)) + "|base64 -d>" + path + "&&exec sh " + path + "'"
}

// environment is what a pod finds in its environment: its tags, its keys, and by when
// it ends itself.
func (d *driver) environment(req gputrain.LaunchRequest, nodes []gputrain.NodeRequest, now time.Time) map[string]string {
	var private []string
	for _, n := range nodes {
		encoded := base64.StdEncoding.EncodeToString([]byte(n.HostKey.Private))
		d.client.hide(string(n.HostKey.Private), encoded)
		private = append(private, encoded)
	}
	seconds := func(t time.Duration) string { return strconv.FormatInt(int64(t.Seconds()), 10) }
	env := map[string]string{
		"PUBLIC_KEY":              strings.TrimSpace(req.Pool.AuthorizedKey),
		envHostKey:                strings.Join(private, ","),
		"GPUTRAIN_DESTRUCT":       base64.StdEncoding.EncodeToString([]byte(d.destruct())),
		"GPUTRAIN_FIRST_DEADLINE": seconds(d.cfg.provisionTimeout() + req.Pool.Lease),
	}
	if !req.Pool.Expires.IsZero() {
		env["GPUTRAIN_LAST_DEADLINE"] = seconds(max(req.Pool.Expires.Sub(now), 0) + afterTTL)
	}
	maps.Copy(env, tags(req, nodes))
	return env
}

// destruct is shell text by which a pod ends itself.
func (d *driver) destruct() string {
	return "ENDPOINT=" + quote(d.cfg.podEndpoint()) + "\n" + destructScript
}

// SelfDestruct returns a command that deletes the pod with the key that RunPod has put
// into it. No key is known that may end a cluster, of which a pod cannot leave alone.
func (d *driver) SelfDestruct(in gputrain.Instance) string {
	if in.Labels[labelCluster] != "" {
		return ""
	}
	return "sh -c " + quote(d.destruct())
}

// quote makes one word of s for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
