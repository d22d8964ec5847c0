package runpod

import (
	_ "embed"
	"encoding/base64"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

var (
	//go:embed start.sh
	startScript string
	//go:embed destruct.sh
	destructScript string
)

// Leftovers of a pool are ended from outside its program and its nodes afterTTL after the
// pool's TTL.
const afterTTL = 10 * time.Minute

// startCommand returns the command of a pod. RunPod splits it into words, and supports quotes
// only around text without quotes. The script is in a folder that only root can write.
func startCommand() string {
	const path = "/run/gputrain-start"
	return "sh -c 'mkdir -p /run&&echo " + base64.StdEncoding.EncodeToString([]byte(startScript)) + "|base64 -d>" + path + "&&exec sh " + path + "'"
}

// environment returns a pod's environment: its tags, its keys, and the time at which it ends
// itself.
func (a *api) environment(pool driver.PoolInfo, offerID string, nodes []driver.NodeRequest, now time.Time) map[string]string {
	var private []string
	for _, n := range nodes {
		encoded := base64.StdEncoding.EncodeToString([]byte(n.HostKey.Private))
		a.client.hide(string(n.HostKey.Private), encoded)
		private = append(private, encoded)
	}
	seconds := func(t time.Duration) string { return strconv.FormatInt(int64(t.Seconds()), 10) }
	env := map[string]string{
		"PUBLIC_KEY":              strings.TrimSpace(pool.AuthorizedKey),
		envHostKey:                strings.Join(private, ","),
		"GPUTRAIN_DESTRUCT":       base64.StdEncoding.EncodeToString([]byte(a.destruct())),
		"GPUTRAIN_FIRST_DEADLINE": seconds(a.cfg.provisionTimeout() + a.cfg.instanceTimeout()),
		"GPUTRAIN_READY_DEADLINE": seconds(a.cfg.instanceTimeout()),
	}
	if !pool.Expires.IsZero() {
		env["GPUTRAIN_LAST_DEADLINE"] = seconds(max(pool.Expires.Sub(now), 0) + afterTTL)
	}
	maps.Copy(env, tags(pool, offerID, nodes))
	return env
}

// destruct returns the shell script with which a pod ends itself.
func (a *api) destruct() string {
	return "ENDPOINT=" + cloud.Quote(a.cfg.podEndpoint()) + "\n" + destructScript
}

// Scripts returns a command that deletes the pod with the key that RunPod has put into it. No
// key is known that may end a cluster, and a pod cannot leave one alone.
func (d *podDriver) Scripts(in driver.Instance) driver.Scripts {
	if in.Labels[labelCluster] != "" {
		return driver.Scripts{}
	}
	return driver.Scripts{SelfDestruct: "sh -c " + cloud.Quote(d.api.destruct())}
}
