package status

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/observe"
)

// ask sends a request to a server, with another Host if one is given, and follows no redirect.
func ask(t *testing.T, target, host string, header http.Header) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), "GET", target, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Host = host
	if header != nil {
		q.Header = header
	}
	r, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Body.Close() })
	return r
}

func bodyOf(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// addressOf returns the address of a server without its token, and the token.
func addressOf(t *testing.T, s *Server) (base, token string) {
	t.Helper()
	base, token, ok := strings.Cut(s.URL(), "/#token=")
	if !ok {
		t.Fatalf("the URL is %s", s.URL())
	}
	return base, token
}

func TestServeAsksForTheToken(t *testing.T) {
	s := served(t, newFake(aRun(1, 4, began)))
	other := served(t, newFake(aRun(1, 4, began)))
	base, token := addressOf(t, s)
	if len(token) < 26 || strings.Contains(other.URL(), token) {
		t.Fatalf("the URLs are %s and %s", s.URL(), other.URL())
	}
	_, port, _ := net.SplitHostPort(s.listen.String())
	for _, path := range []string{"/run.json", "/events", "/metrics", "/no/such", "//", "/index.html", "/run.json?token=" + token, "/?token=" + token, "/page.js?token=" + token} {
		for name, header := range map[string]http.Header{
			"nothing": nil, "a cookie": {"Cookie": {"gputrain-status-" + port + "=" + token + "; token=" + token}}, "a wrong bearer": {"Authorization": {"Bearer x"}},
			"an empty bearer": {"Authorization": {"Bearer "}}, "no bearer": {"Authorization": {token}}, "a part": {"Authorization": {"Bearer " + token[1:]}},
			"more": {"Authorization": {"Bearer " + token + "x"}}, "small letters": {"Authorization": {"Bearer " + strings.ToLower(token)}},
			"another server's": {"Authorization": {"Bearer " + other.token}}, "basic": {"Authorization": {"Basic " + token}},
		} {
			r := ask(t, base+path, "", header)
			body := bodyOf(t, r)
			if _, isPage := pageFiles[strings.Split(path, "?")[0]]; isPage {
				if r.StatusCode != http.StatusOK {
					t.Errorf("%s with %s is %s", path, name, r.Status)
				}
			} else if r.StatusCode != http.StatusUnauthorized || !strings.Contains(body, "#token=") {
				t.Errorf("%s with %s is %s: %s", path, name, r.Status, body)
			}
			if strings.Contains(body, token) || strings.Contains(body, "digits") {
				t.Errorf("%s with %s says too much: %s", path, name, body)
			}
		}
	}
	for _, path := range []string{"/", "/run.json", "/metrics", "/page.js"} {
		if r := ask(t, base+path, "", http.Header{"Authorization": {"Bearer " + token}}); r.StatusCode != http.StatusOK {
			t.Errorf("%s with the token in a header: %s", path, r.Status)
		}
	}
}

// Nothing that a browser sends or keeps by itself has the token: no cookie, no address, no redirect.
func TestServeGivesTheTokenToNobody(t *testing.T) {
	s := served(t, newFake(aRun(1, 4, began)))
	base, token := addressOf(t, s)
	for _, path := range []string{"/", "/page.js", "/page.css", "/run.json", "/metrics", "/?token=" + token, "/events?token=" + token, "//evil.example/?token=" + token} {
		for _, header := range []http.Header{nil, {"Authorization": {"Bearer " + token}}} {
			if strings.HasPrefix(path, "/events") && header != nil {
				continue // it does not end
			}
			r := ask(t, base+path, "", header)
			if strings.Contains(fmt.Sprint(r.Header), token) || strings.Contains(bodyOf(t, r), token) || r.Header.Get("Set-Cookie") != "" || r.Header.Get("Location") != "" || r.Header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("%s answers %v", path, r.Header)
			}
		}
	}
}

// Connections without the token are few, whoever opens them, and keep out nobody who has it.
func TestStrangersAreFew(t *testing.T) {
	s := served(t, newFake(aRun(1, 4, began)))
	base, token := addressOf(t, s)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	reused := 0
	get := func() {
		t.Helper()
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
			if c.Reused {
				reused++
			}
		}})
		q, err := http.NewRequestWithContext(ctx, "GET", base+"/run.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		r, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if bodyOf(t, r); r.StatusCode != http.StatusOK {
			t.Fatal(r.Status)
		}
	}
	get()
	var opened []net.Conn
	for i := range 10 * maxStrangers {
		c, err := net.Dial("tcp", s.listen.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			io.WriteString(c, "GET /run.json HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		}
		opened = append(opened, c)
	}
	for _, c := range opened[:9*maxStrangers] { // until it is closed
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a connection without the token stays open, though many have come since")
		}
	}
	s.unseen.mu.Lock()
	if n := len(s.unseen.all); n > maxStrangers {
		t.Errorf("%d connections without the token are open", n)
	}
	s.unseen.mu.Unlock()
	if get(); reused != 1 {
		t.Error("the connection that has shown the token was closed")
	}
	ask(t, base+"/run.json", "", http.Header{"Authorization": {"Bearer " + token}})
}

// A connection without the token has one answer, and a header of bounded size.
func TestStrangersGetOneAnswer(t *testing.T) {
	s := served(t, newFake(aRun(1, 4, began)))
	for request, want := range map[string]string{
		"GET /run.json HTTP/1.1\r\nHost: " + s.listen.String() + "\r\n\r\n":                                            "401 Unauthorized",
		"GET / HTTP/1.1\r\nHost: " + s.listen.String() + "\r\n\r\n":                                                    "200 OK",
		"POST / HTTP/1.1\r\nHost: " + s.listen.String() + "\r\nContent-Length: 100\r\n\r\n" + strings.Repeat("x", 100): "405 Method Not Allowed",
		"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                                                 "421 Misdirected Request",
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("a", 30<<10) + "\r\n\r\n":                                             "431 Request Header Fields Too Large",
	} {
		c, err := net.Dial("tcp", s.listen.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetReadDeadline(time.Now().Add(time.Minute))
		io.WriteString(c, request+request)
		answers, err := io.ReadAll(c)
		if got := string(answers); strings.Count(got, "HTTP/1.1 ") != 1 || !strings.HasPrefix(got, "HTTP/1.1 "+want) || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.60q is answered by %.300q, %v, want %s once", request, got, err, want)
		}
	}
}

// A connection that never asks, or asks too slowly, ends; a stream with the token goes on for longer than that.
func TestStrangersAreShort(t *testing.T) {
	s := served(t, newFake(aRun(1, 4, began)))
	base, token := addressOf(t, s)
	stream := ask(t, base+"/events", "", http.Header{"Authorization": {"Bearer " + token}})
	for _, begun := range []string{"", "GET / HTTP/1.1\r\nHost: ", "POST / HTTP/1.1\r\nHost: " + s.listen.String() + "\r\nContent-Length: 100000000\r\n\r\nx"} {
		c, err := net.Dial("tcp", s.listen.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, begun)
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection that has sent %q goes on", begun)
		}
	}
	in := bufio.NewReader(stream.Body)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream has ended: %v", err)
		}
		if strings.HasPrefix(line, ":") { // a comment, after keepAlive
			return
		}
	}
}

func TestServeRefusesOtherHosts(t *testing.T) {
	s := served(t, newFake(aRun(1, 4, began)))
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	port := u.Port()
	token := http.Header{"Authorization": {"Bearer " + s.token}}
	for _, host := range []string{"127.0.0.1:" + port, "localhost:" + port, "LocalHost:" + port, "[::1]:" + port} {
		if r := ask(t, "http://"+u.Host+"/run.json", host, token); r.StatusCode != http.StatusOK {
			t.Errorf("%s is %s", host, r.Status)
		}
	}
	for _, host := range []string{
		"evil.example", "evil.example:" + port, "127.0.0.1", "localhost", "localhost:1", "127.0.0.1.evil.example:" + port, "localhost.evil.example:" + port, "192.0.2.1:" + port,
		"127.0.0.1:" + port + ":" + port, "0.0.0.0:" + port, "[::]:" + port, ":" + port,
	} {
		r := ask(t, "http://"+u.Host+"/run.json", host, token)
		if body := bodyOf(t, r); r.StatusCode != http.StatusMisdirectedRequest && r.StatusCode != http.StatusBadRequest || strings.Contains(body, "digits") {
			t.Errorf("%s is %s: %.100s", host, r.Status, body)
		}
		// A foreign host gets no page either.
		if r := ask(t, "http://"+u.Host, host, nil); r.StatusCode == http.StatusOK {
			t.Errorf("%s got the page", host)
		}
	}
}

// A server that listens at all addresses answers under those that requests come to, and is shown by one that can be visited.
func TestServeAtAllAddresses(t *testing.T) {
	s, err := serve(newHandler(newFake(observe.Run{})), ":0", "t")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	if u.Hostname() != "127.0.0.1" {
		t.Errorf("the URL is %s", s.URL())
	}
	if r := ask(t, s.URL(), "", nil); r.StatusCode != http.StatusOK {
		t.Errorf("its URL is answered by %s", r.Status)
	}
	if r := ask(t, s.URL(), "evil.example:"+u.Port(), nil); r.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a foreign host is answered by %s", r.Status)
	}
}

func TestServeReportsAnAddressThatIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Serve(nil, l.Addr().String()); err == nil || !strings.HasPrefix(err.Error(), "status: ") {
		t.Errorf("got %v", err)
	}
	if _, err := Serve(nil, "no port"); err == nil {
		t.Error("an address without a port is taken")
	}
}

func TestCloseEndsStreams(t *testing.T) {
	s, err := serve(newHandler(newFake(aRun(1, 4, began))), "", "t")
	if err != nil {
		t.Fatal(err)
	}
	r := ask(t, "http://"+s.listen.String()+"/events", "", http.Header{"Authorization": {"Bearer t"}})
	in := bufio.NewReader(r.Body)
	if first, err := in.ReadString('\n'); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %q, %v", r.Status, first, err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	io.Copy(io.Discard, in) // which ends
	if c, err := net.Dial("tcp", s.listen.String()); err == nil {
		c.Close()
		t.Error("it still listens")
	}
}
