package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/tools/portforward"
	spdytransport "k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
)

const (
	// tunnelProtocol is port forwarding within a WebSocket.
	tunnelProtocol = "SPDY/3.1+" + portforward.PortForwardProtocolV1Name
	// pingEvery keeps load balancers from closing a connection that is idle.
	pingEvery = 10 * time.Second
)

// forward connects to the SSH server of a pod through the API server. Each connection has one of
// its own to the API server: several over one would hold each other up.
func (k *cluster) forward(ctx context.Context, pod string) (net.Conn, error) {
	c, err := k.webSocket(ctx, pod)
	if err == nil {
		return forwarded(ctx, c, pod)
	}
	if !isNotUpgraded(err) || ctx.Err() != nil {
		return nil, unreached("", fmt.Errorf("by WebSocket: %w", err))
	}
	c, failed := k.spdy(ctx, pod)
	if failed == nil {
		return forwarded(ctx, c, pod)
	}
	return nil, unreached("if a proxy refuses both, set Reach to exec, or to direct inside the cluster",
		fmt.Errorf("by WebSocket: %w", err), fmt.Errorf("by SPDY: %w", failed))
}

func (k *cluster) podURL(pod, action string, query url.Values) (*url.URL, error) {
	u, err := url.Parse(k.server + k.core("pods") + "/" + url.PathEscape(pod) + "/" + action)
	if err == nil {
		u.RawQuery = query.Encode()
	}
	return u, err
}

// webSocket opens a connection for port forwarding over WebSocket (Kubernetes 1.31).
func (k *cluster) webSocket(ctx context.Context, pod string) (httpstream.Connection, error) {
	u, err := k.podURL(pod, "portforward", nil)
	if err != nil {
		return nil, err
	}
	round, holder, err := websocket.RoundTripperFor(k.config())
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	ws, err := websocket.Negotiate(round, holder, req, tunnelProtocol)
	if err != nil {
		return nil, err
	}
	tunnel := quietConn{portforward.NewTunnelingConnection("client", ws)}
	c, err := spdy.NewClientConnectionWithPings(tunnel, pingEvery)
	if err != nil {
		tunnel.Close()
		return nil, err
	}
	return c, nil
}

// A quietConn reports no error when it is closed. The SPDY connection above it would start a
// goroutine that offers the error for a second, and nothing here reads it.
type quietConn struct{ net.Conn }

func (c quietConn) Close() error {
	_ = c.Conn.Close()
	return nil
}

// spdy opens a connection for port forwarding as it was before WebSocket.
func (k *cluster) spdy(ctx context.Context, pod string) (httpstream.Connection, error) {
	u, err := k.podURL(pod, "portforward", nil)
	if err != nil {
		return nil, err
	}
	round, upgrader, err := spdytransport.RoundTripperFor(k.config())
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return nil, err
	}
	c, _, err := spdytransport.Negotiate(upgrader, &http.Client{Transport: round}, req, portforward.PortForwardProtocolV1Name)
	return c, err
}

// The headers of the streams of a forwarded connection, by Kubernetes' protocol
// portforward.k8s.io.
const (
	headerStream  = "streamType"
	headerPort    = "port"
	headerRequest = "requestID"
	streamError   = "error"
	streamData    = "data"
)

// forwarded opens the two streams of a forwarded connection. What is said on the first means that
// the second has failed.
func forwarded(ctx context.Context, c httpstream.Connection, pod string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	open := func(kind string) (httpstream.Stream, error) {
		h := http.Header{}
		h.Set(headerStream, kind)
		h.Set(headerPort, strconv.Itoa(sshPort))
		h.Set(headerRequest, "0")
		return c.CreateStream(h)
	}
	failures, err := open(streamError)
	if err != nil {
		c.Close()
		return nil, unreached("", fmt.Errorf("opening a stream to %s: %w", pod, err))
	}
	failures.Close() // it is only read
	data, err := open(streamData)
	if err != nil {
		c.Close()
		return nil, unreached("", fmt.Errorf("opening a stream to %s: %w", pod, err))
	}
	said := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(failures, 4<<10)) // ends with the connection
		said <- string(text)
	}()
	why := func(err error) error {
		if !errors.Is(err, io.EOF) {
			return err
		}
		select {
		case text := <-said:
			if said <- text; text != "" {
				return fmt.Errorf("the API server: %s", text)
			}
		case <-time.After(5 * time.Second):
		}
		return err
	}
	return newStreamConn(pod, data, data, why, func() { data.Reset(); c.Close() }), nil
}
