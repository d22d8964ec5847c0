package status

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/observe"
)

// A Server shows a Recorder to those who have its URL. [Serve] makes one.
type Server struct {
	http   *http.Server
	addr   string // as it was asked for
	listen net.Addr
	token  string
	unseen strangers
	stop   context.CancelFunc // of all requests
	work   sync.WaitGroup     // requests, and what accepts them
	close  func() error
}

// Serve listens at addr, a host and a port such as "127.0.0.1:0", and shows what r records as [Handler] does. Port 0 is a free
// one, and the empty addr is "127.0.0.1:0". It returns once it listens. The error says why it cannot.
//
// The token is in the fragment of URL, which a browser sends nowhere. The page takes it from there, out of the address bar, keeps
// it for its own tab, and sends it in a header "Authorization: Bearer" with each request. Programs send the same header. It is no
// cookie, because browsers send a host's cookies to all of its ports: to the servers of other users of this computer, and to what
// gputrain.Compute.Forward leads to. Without the token there is only the page itself, which says that it lacks it. Requests for
// another Host than the server's own are refused: it is the address that the server listens at, or localhost with its port. A page
// elsewhere that lets its name resolve to this computer so learns nothing.
//
// Connections that have not shown the token are few and short: of more than 32 the oldest is closed, and each after one answer.
//
// The connection is not encrypted. From another computer use a tunnel to the same port, "ssh -L 8080:127.0.0.1:8080", rather than
// an address that others reach.
func Serve(r *observe.Recorder, addr string) (*Server, error) {
	return serve(newHandler(r), addr, rand.Text())
}

func serve(h http.Handler, addr, token string) (*Server, error) {
	addr = cmp.Or(addr, "127.0.0.1:0")
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{addr: addr, listen: l.Addr(), token: token, stop: stop}
	s.http = &http.Server{
		Handler:           s.guard(h),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConn,
		ConnState:         s.unseen.changed,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second, // what is long has deadlines of its own
		IdleTimeout:       2 * time.Minute,  // of connections that have shown the token
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // what clients do wrong is theirs
	}
	s.close = sync.OnceValue(s.end)
	s.work.Go(func() { s.http.Serve(l) })
	return s, nil
}

// URL returns the address of the page. It ends with the token that lets a visitor in, after "#token=": treat it as a password.
func (s *Server) URL() string {
	host, port, _ := net.SplitHostPort(s.listen.String())
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/", Fragment: "token=" + s.token}
	return u.String()
}

// goodbye bounds the time in which Close sends pages the end of the run.
const goodbye = time.Second

// Close ends all connections and returns when nothing of the server runs any more. Pages that follow the run get its last state
// before, for a second at most: close the pools first, and they say that all machines are gone. Closing twice is the same as once.
func (s *Server) Close() error { return s.close() }

func (s *Server) end() error {
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if ctx.Err() != nil {
		err = s.http.Close()
	}
	s.work.Wait()
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return nil
}

// guard lets in only requests that name this server and have its token. Others get the files of the page, which have nothing of
// the run, and no second answer on their connection.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		s.work.Add(1)
		defer s.work.Done()
		isOwn := s.isOwnHost(q)
		if token, ok := strings.CutPrefix(q.Header.Get("Authorization"), "Bearer "); ok && isOwn && s.isToken(token) {
			s.unseen.known(connOf(q))
			next.ServeHTTP(w, q)
			return
		}
		harden(w.Header())
		w.Header().Set("Connection", "close")
		if !isOwn {
			refuse(w, http.StatusMisdirectedRequest, "This server answers only under its own address, as the program has printed it. Through a tunnel, use the same port on both sides.")
		} else if _, isPage := pageFiles[q.URL.Path]; isPage {
			next.ServeHTTP(w, q)
		} else {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "This is for those who have the token: it is in the address that the program has printed, http://.../#token=...\nSend it in a header: Authorization: Bearer TOKEN. A program that was started again has a new one.")
		}
	})
}

func (s *Server) isToken(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) == 1
}

// isOwnHost reports whether a request names this server: by the address that it listens at, by the one that the request has come
// to, which a name that was made to resolve to it is not, or by a name of the loopback interface.
func (s *Server) isOwnHost(q *http.Request) bool {
	host, port, err := net.SplitHostPort(q.Host)
	if err != nil { // without a port it is 80
		host, port = strings.Trim(q.Host, "[]"), "80"
	}
	_, own, _ := net.SplitHostPort(s.listen.String())
	if port != own {
		return false
	}
	host = strings.ToLower(host)
	if asked, _, _ := net.SplitHostPort(s.addr); host == "localhost" || host != "" && host == strings.ToLower(asked) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, _ := q.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return ip.IsLoopback()
	}
	at, err := netip.ParseAddrPort(local.String())
	return ip.IsLoopback() || err == nil && ip.Unmap() == at.Addr().Unmap().WithZone("")
}
