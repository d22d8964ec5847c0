package vastai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/internal/rest"
)

const (
	// hostKeyMark begins a line of a node's log that tells a host key: mark, node, kind, key.
	hostKeyMark = "gputrain-host-key"
	// maxLog is how long a log may be of which only such lines were asked for.
	maxLog = 256 << 10
	// maxHostKeys is how many keys a node may tell.
	maxHostKeys = 16
	// logPolls is how often a log is looked for that is on its way.
	logPolls = 10
)

// logPause is the time between two looks, and between two requests for one node's log.
func logPause() time.Duration { return second / 3 }

// logTimeout is how long a node that runs may take until its log tells its host key.
func logTimeout() time.Duration { return 180 * second }

// A keyLog holds the host keys that an instance's log has told.
type keyLog struct {
	keys  []string // in authorized_keys form
	since time.Time
	err   error // of the last look
}

// learnHostKeys reads the host keys of instances that run from their logs, each once. What
// fails is tried again by the next Describe.
func (d *driver) learnHostKeys(ctx context.Context, all []*instance) {
	var looking sync.WaitGroup
	for _, in := range all {
		t, ours := labelOf(*in)
		state, _ := stateOf(*in)
		if d.cfg.TrustFirstContact || !ours || state != gputrain.InstanceRunning || sshAddr(*in, d.cfg.RequireDirectPort) == "" {
			continue
		}
		id := strconv.FormatInt(in.ID, 10)
		d.mu.Lock()
		k := d.logs[id]
		if k == nil {
			k = &keyLog{since: time.Now()}
			d.logs[id] = k
		}
		told := len(k.keys) > 0
		d.mu.Unlock()
		if told {
			continue
		}
		looking.Go(func() {
			keys, err := d.api.hostKeys(ctx, id, t.name)
			d.mu.Lock()
			defer d.mu.Unlock()
			if k.err = err; len(keys) > 0 {
				k.keys = keys
			}
		})
	}
	looking.Wait()
}

// pinLocked puts the host keys that its log has told on a machine that runs. Until then a
// machine that this driver has launched is not to be connected to. Of another program's the
// keys may be known otherwise.
func (d *driver) pinLocked(in *gputrain.Instance, mine bool) {
	k := d.logs[in.ID]
	switch {
	case d.cfg.TrustFirstContact || in.SSH.Addr == "":
	case k != nil && len(k.keys) > 0:
		in.SSH.HostKeys = slices.Clone(k.keys)
	case mine && k != nil && time.Since(k.since) > logTimeout():
		in.SSH, in.State = gputrain.Endpoint{}, gputrain.InstanceFailed
		in.StateReason = fmt.Sprintf("its log has not told its host key in %v; Config.TrustFirstContact takes the one of the first contact", logTimeout())
		if k.err != nil {
			in.StateReason += " (" + k.err.Error() + ")"
		}
	case mine:
		in.SSH, in.StateReason = gputrain.Endpoint{}, "its log does not tell its host key yet"
	}
}

// hostKeys returns the host keys that a node has told in its log, or none.
func (c *client) hostKeys(ctx context.Context, id, node string) ([]string, error) {
	var out struct {
		done
		ResultURL string `json:"result_url"`
	}
	path := "/api/v0/instances/request_logs/" + url.PathEscape(id) + "/"
	in := map[string]string{"tail": "1000", "filter": hostKeyMark}
	if err := c.rest.Do(ctx, "PUT", path, in, &out, rest.Idempotent, rest.Limit(c.limits.manage)); err != nil {
		return nil, err
	}
	text, err := c.log(ctx, out.ResultURL)
	if err != nil {
		return nil, fmt.Errorf("PUT %s: its result_url: %w", path, err)
	}
	return hostKeysIn(text, node), nil
}

// log reads a log from where the API says that it will be. It is another server, which is
// told nothing of the account, and bounded.
func (c *client) log(ctx context.Context, address string) (string, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Host == "", u.User != nil, u.Scheme != "https" && !c.local:
		return "", fmt.Errorf("%w: it is no https address", rest.ErrAnswer)
	case localnet.IsURL(address) && !c.local:
		return "", fmt.Errorf("%w: it is an address of this computer, or of its link", rest.ErrAnswer)
	}
	own := http.Client{Transport: c.plain}
	there, err := rest.New(rest.Config{BaseURL: u.Scheme + "://" + u.Host, HTTPClient: &own, Attempts: 1, MaxBody: maxLog})
	if err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		var text string
		err := there.Do(ctx, "GET", u.EscapedPath(), nil, &text, rest.Query(u.Query()), rest.EmptyAnswer)
		if err == nil || n == logPolls || !launches.Pause(ctx, logPause()) {
			return text, err
		}
	}
}

// hostKeysIn returns the keys that a node tells in a log.
func hostKeysIn(log, node string) (keys []string) {
	for line := range strings.Lines(log) {
		words := strings.Fields(line)
		i := slices.Index(words, hostKeyMark) // after what a log puts before its lines
		if i < 0 || len(words) < i+4 || words[i+1] != node || !isHostKey(words[i+2], words[i+3]) {
			continue
		}
		if key := words[i+2] + " " + words[i+3]; !slices.Contains(keys, key) && len(keys) < maxHostKeys {
			keys = append(keys, key)
		}
	}
	return keys
}

// isHostKey reports whether a text is a public key of a kind that SSH servers have.
func isHostKey(kind, text string) bool {
	if kind != "ssh-ed25519" && kind != "ssh-rsa" && !strings.HasPrefix(kind, "ecdsa-sha2-nistp") {
		return false
	}
	blob, err := base64.StdEncoding.DecodeString(text)
	return err == nil && len(blob) > 4+len(kind) && binary.BigEndian.Uint32(blob) == uint32(len(kind)) && string(blob[4:4+len(kind)]) == kind
}
