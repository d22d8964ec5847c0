package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/tools/portforward"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

func sendFailure(w http.ResponseWriter, a fakecloud.Answer) {
	s := a.Body.(status)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(s.Code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%q,"code":%d}`, s.Message, s.Reason, s.Code)
}

// connect forwards a port of a pod, over WebSocket or SPDY.
func (f *fake) connect(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // api v1 namespaces NS pods POD ACTION
	name, action := parts[5], parts[6]
	kind := "spdy"
	if websocket.IsWebSocketUpgrade(r) {
		kind = "websocket"
	}
	need := right{"", "pods/" + action, "create"}
	var there, bound, allowed bool
	f.Do(func() {
		f.reconcile()
		p := f.pods[name]
		there, bound, allowed = p != nil, p != nil && p.Spec.NodeName != "", f.allowed(need)
	})
	f.mu.Lock()
	f.forwards = append(f.forwards, kind+" "+action)
	refused, m := f.refuse[kind] || f.refuse[action], f.machines[name]
	f.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "Bearer "+testToken:
		sendFailure(w, failure(401, "Unauthorized", "Unauthorized"))
	case !allowed:
		sendFailure(w, forbidden(need))
	case refused:
		http.Error(w, "a proxy passes no upgrades", http.StatusBadGateway)
	case !there:
		sendFailure(w, failure(404, "NotFound", fmt.Sprintf("unable to upgrade streaming request: pods %q not found", name)))
	case !bound:
		sendFailure(w, failure(400, "BadRequest", fmt.Sprintf("pod %s does not have a host assigned", name)))
	case kind == "websocket":
		f.overWebSocket(w, r, m)
	default:
		f.overSPDY(w, r, m)
	}
}

func (f *fake) overWebSocket(w http.ResponseWriter, r *http.Request, m *fakecloud.Machine) {
	upgrader := websocket.Upgrader{Subprotocols: []string{tunnelProtocol}}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		f.t.Error(err)
		return
	}
	streams := make(chan httpstream.Stream, 2)
	c, err := spdy.NewServerConnection(quietConn{portforward.NewTunnelingConnection("server", ws)}, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if err != nil {
		f.t.Error(err)
		return
	}
	serveForward(c, streams, m)
}

func (f *fake) overSPDY(w http.ResponseWriter, r *http.Request, m *fakecloud.Machine) {
	f.spdy.Add(1)
	defer f.spdy.Add(-1)
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 2)
	c := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if c == nil {
		return
	}
	serveForward(c, streams, m)
}

// serveForward connects the data stream with the pod's port, and says on the other why it cannot.
func serveForward(c httpstream.Connection, streams <-chan httpstream.Stream, m *fakecloud.Machine) {
	defer c.Close()
	var failures, data httpstream.Stream
	for failures == nil || data == nil {
		select {
		case s := <-streams:
			switch s.Headers().Get("streamType") {
			case "error":
				failures = s
			case "data":
				data = s
			}
		case <-c.CloseChan():
			return
		case <-time.After(30 * time.Second):
			return
		}
	}
	port := data.Headers().Get("port")
	err := errors.New("nothing listens")
	var nc net.Conn
	if m != nil && port == "2222" {
		nc, err = net.Dial("tcp", m.Addr())
	}
	if err != nil {
		fmt.Fprintf(failures, "error forwarding port %s to pod: %v", port, err)
		failures.Close()
		data.Close()
		<-c.CloseChan()
		return
	}
	defer nc.Close()
	go func() {
		<-c.CloseChan()
		nc.Close()
	}()
	go func() {
		io.Copy(nc, data)
		nc.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(data, nc)
	failures.Close()
	data.Close()
}

// settleSPDY waits until the vendor's connections have given up telling of errors at their end,
// which takes them a second.
func (f *fake) settleSPDY() {
	f.mu.Lock()
	used := slices.Contains(f.forwards, "spdy portforward")
	f.mu.Unlock()
	stacks := make([]byte, 4<<20)
	for end := time.Now().Add(20 * time.Second); used && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		used = f.spdy.Load() > 0 || bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("spdystream.(*Connection).shutdown"))
	}
}
