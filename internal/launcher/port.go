package launcher

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/bounded"
)

// The ports at which gangs meet. Others of the node's network must be open too: NCCL and gloo take random ones.
const (
	firstPort = 29500
	ports     = 400
)

// MaxSockets bounds the list of a node's sockets, in bytes. Each connection has 150.
const MaxSockets = 16 << 20

// ErrNoPort means that no port of the first node is free.
var ErrNoPort = errors.New("no free port")

// Commands runs short commands on a node.
type Commands interface {
	ExecMoving(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error
}

// FreePort returns a port for an attempt on the gang's first node: see [Port]. Trainings begin to look at different ports, since
// those of one machine that start at the same time would find the same one free.
func FreePort(ctx context.Context, node Commands, training string, attempt, before int) (int, error) {
	sockets := bounded.Buffer{Most: MaxSockets}
	// A kernel without IPv6 has no tcp6, and another system than Linux has neither: what is in use there is not known.
	err := node.ExecMoving(ctx, "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null || :", nil, &sockets, nil)
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	sum := fnv.New32a()
	sum.Write([]byte(training))
	return Port(sockets.String(), attempt+int(sum.Sum32()%ports), before)
}

// Port returns the first port that is free by /proc/net/tcp and tcp6, whose lines sockets has, from 29500 + attempt - 1 on. The
// last one is 29899, after which it begins anew. It is never before, the port of the last attempt, from which processes may
// be left.
func Port(sockets string, attempt, before int) (int, error) {
	taken := map[int]bool{before: true}
	for line := range strings.Lines(sockets) {
		words := strings.Fields(line) // "0: 0100007F:733C 00000000:0000 0A", and more
		if len(words) < 4 || words[3] == timeWait {
			continue
		}
		at := strings.LastIndexByte(words[1], ':')
		if port, err := strconv.ParseUint(words[1][at+1:], 16, 16); err == nil {
			taken[int(port)] = true
		}
	}
	for i := range ports {
		if port := firstPort + (max(attempt, 1)-1+i)%ports; !taken[port] {
			return port, nil
		}
	}
	return 0, fmt.Errorf("%w: ports %d to %d of the gang's first node are in use: end what listens there",
		ErrNoPort, firstPort, firstPort+ports-1)
}

// timeWait is the state of a connection that is over. Its port can be listened on.
const timeWait = "06"
