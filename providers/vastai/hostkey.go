package vastai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// hostKeyMark begins a log line with a host key: mark, node, kind, key.
	hostKeyMark = "gputrain-host-key"
	// maxLog bounds the bytes of a log of such lines.
	maxLog = 256 << 10
	// maxHostKeys bounds the keys of a node.
	maxHostKeys = 16
	// logPolls bounds the looks for a requested log.
	logPolls = 10
)

// logPause is the pause between two looks, and between two requests for one node's log.
func logPause() time.Duration { return cloud.Second / 3 }

// logTimeout bounds the time until a running node's log has its host key.
func logTimeout() time.Duration { return 180 * cloud.Second }

// A keyLog holds the host keys in an instance's log.
type keyLog struct {
	keys  []string // in authorized_keys form
	since time.Time
	err   error // of the last read
}

// hostKeyLogs holds the host keys in the instances' logs.
type hostKeyLogs struct {
	client *client

	mu   sync.Mutex
	byID map[string]*keyLog
}

func newHostKeyLogs(client *client) *hostKeyLogs {
	return &hostKeyLogs{client: client, byID: map[string]*keyLog{}}
}

// learn reads the host keys of running nodes from their logs, once each. The next call retries
// a failed read.
func (l *hostKeyLogs) learn(ctx context.Context, nodes []driver.Instance) {
	var looking sync.WaitGroup
	for _, in := range nodes {
		if in.Name == "" || in.State != driver.InstanceRunning || in.SSH.Addr == "" {
			continue
		}
		k, known := l.logOf(in.ID)
		if known {
			continue
		}
		looking.Go(func() {
			keys, err := l.client.hostKeys(ctx, in.ID, in.Name)
			l.mu.Lock()
			defer l.mu.Unlock()
			if k.err = err; len(keys) > 0 {
				k.keys = keys
			}
		})
	}
	looking.Wait()
}

// logOf returns what is known of an instance's log. known is false if its keys are missing.
func (l *hostKeyLogs) logOf(id string) (k *keyLog, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID[id] == nil {
		l.byID[id] = &keyLog{since: time.Now()}
	}
	k = l.byID[id]
	return k, len(k.keys) > 0
}

// known returns a copy of an instance's keyLog. It is zero if the log was not read yet.
func (l *hostKeyLogs) known(id string) keyLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.byID[id]; k != nil {
		return *k
	}
	return keyLog{}
}

// pin puts a running machine's host keys from its log on it. Until they are known, a machine
// that this driver has launched must not be connected to. Those of another program may be known
// in another way.
func (p *provider) pin(in *driver.Instance) {
	p.mu.Lock()
	mine := p.notes[in.ID] != nil
	p.mu.Unlock()
	k := p.logs.known(in.ID)
	switch {
	case p.cfg.TrustFirstContact || in.SSH.Addr == "":
	case len(k.keys) > 0:
		in.SSH.HostKeys = slices.Clone(k.keys)
	case mine && !k.since.IsZero() && time.Since(k.since) > logTimeout():
		in.SSH, in.State = driver.Endpoint{}, driver.InstanceFailed
		in.StateReason = fmt.Sprintf("its log has had no host key for %v; Config.TrustFirstContact accepts the key of the first contact", logTimeout())
		if k.err != nil {
			in.StateReason += " (" + k.err.Error() + ")"
		}
	case mine:
		in.SSH, in.StateReason = driver.Endpoint{}, "its log does not have its host key yet"
	}
}

// hostKeys returns the host keys in a node's log, or none.
func (c *client) hostKeys(ctx context.Context, id, node string) ([]string, error) {
	text, err := c.requestLog(ctx, id, map[string]string{"tail": "1000", "filter": hostKeyMark})
	return hostKeysIn(text, node), err
}

// hostKeysIn returns a node's keys in a log.
func hostKeysIn(log, node string) (keys []string) {
	for line := range strings.Lines(log) {
		words := strings.Fields(line)
		i := slices.Index(words, hostKeyMark) // the log may prefix its lines
		if i < 0 || len(words) < i+4 || words[i+1] != node || !isHostKey(words[i+2], words[i+3]) {
			continue
		}
		if key := words[i+2] + " " + words[i+3]; !slices.Contains(keys, key) && len(keys) < maxHostKeys {
			keys = append(keys, key)
		}
	}
	return keys
}

// isHostKey reports whether a text is a public key of a kind for SSH servers.
func isHostKey(kind, text string) bool {
	if kind != "ssh-ed25519" && kind != "ssh-rsa" && !strings.HasPrefix(kind, "ecdsa-sha2-nistp") {
		return false
	}
	blob, err := base64.StdEncoding.DecodeString(text)
	return err == nil && len(blob) > 4+len(kind) && binary.BigEndian.Uint32(blob) == uint32(len(kind)) && string(blob[4:4+len(kind)]) == kind
}
