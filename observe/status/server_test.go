package status

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

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

func TestServeAsksForTheToken(t *testing.T) {
	s := served(t, newFake(aRun(1, 4, began)))
	other := served(t, newFake(aRun(1, 4, began)))
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	base, token := "http://"+u.Host, u.Query().Get("token")
	if len(token) < 26 || strings.Contains(other.URL(), token) {
		t.Fatalf("the URLs are %s and %s", s.URL(), other.URL())
	}
	for _, path := range []string{"/", "/run.json", "/events", "/metrics", "/page.js", "/no/such"} {
		for name, header := range map[string]http.Header{
			"nothing": nil, "a wrong cookie": {"Cookie": {s.cookieName() + "=" + token[1:]}}, "an empty cookie": {"Cookie": {s.cookieName() + "="}},
			"a cookie for another port": {"Cookie": {"gputrain-status-1=" + token}}, "a wrong bearer": {"Authorization": {"Bearer x"}},
			"another server's": {"Cookie": {s.cookieName() + "=" + other.token}}, "basic": {"Authorization": {"Basic " + token}},
		} {
			r := ask(t, base+path, "", header)
			if body := bodyOf(t, r); r.StatusCode != http.StatusUnauthorized || !strings.Contains(body, "?token=") || strings.Contains(body, token) {
				t.Errorf("%s with %s is %s: %s", path, name, r.Status, body)
			}
		}
	}
	for _, query := range []string{"?token=", "?token=x", "?token=" + token + "x", "?token=" + strings.ToLower(token), "?Token=" + token} {
		if r := ask(t, base+"/"+query, "", nil); r.StatusCode != http.StatusUnauthorized || len(r.Cookies()) > 0 {
			t.Errorf("%s is %s", query, r.Status)
		}
	}
	if r := ask(t, base+"/metrics", "", http.Header{"Authorization": {"Bearer " + token}}); r.StatusCode != http.StatusOK {
		t.Errorf("with the token in a header: %s", r.Status)
	}
}

func TestServeExchangesTheTokenForACookie(t *testing.T) {
	s := served(t, newFake(aRun(1, 4, began)))
	r := ask(t, s.URL(), "", nil)
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/" || r.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("%s to %q", r.Status, r.Header.Get("Location"))
	}
	if len(r.Cookies()) != 1 {
		t.Fatalf("got the cookies %v", r.Cookies())
	}
	if c := r.Cookies()[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("got the cookie %v", c)
	}
	for given, want := range map[string]string{
		"/run.json?task=a%26b&token=": "/run.json?task=a%26b", "//evil.example/?token=": "/evil.example/", `/%5Cevil.example/?token=`: "/evil.example/",
	} {
		if r := ask(t, "http://"+s.listen.String()+given+s.token, "", nil); r.Header.Get("Location") != want {
			t.Errorf("%s leads to %q, want %q", given, r.Header.Get("Location"), want)
		}
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	page, err := client.Get(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	if body := bodyOf(t, page); page.StatusCode != http.StatusOK || !strings.Contains(body, "<title>gputrain") || page.Request.URL.RawQuery != "" {
		t.Errorf("%s at %s: %s", page.Status, page.Request.URL, body)
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
		// A foreign host gets no cookie either.
		if r := ask(t, s.URL(), host, nil); len(r.Cookies()) > 0 {
			t.Errorf("%s got a cookie", host)
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
	if r := ask(t, s.URL(), "", nil); r.StatusCode != http.StatusSeeOther {
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
	r := ask(t, strings.Replace(s.URL(), "/?", "/events?", 1), "", nil)
	r = ask(t, strings.Split(s.URL(), "/?")[0]+"/events", "", http.Header{"Cookie": {r.Header.Get("Set-Cookie")}})
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
