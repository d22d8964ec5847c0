package status

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

func answer(t *testing.T, h http.Handler, method, target string) (*http.Response, string) {
	t.Helper()
	ctx, w := t.Context(), httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, target, nil))
	return w.Result(), w.Body.String()
}

func TestHandlerAnswersOnlyReadingMethods(t *testing.T) {
	h := newHandler(newFake(aRun(1, 4, began)))
	for _, path := range []string{"/", "/page.js", "/page.css", "/run.json", "/metrics"} {
		r, body := answer(t, h, "GET", path)
		if r.StatusCode != http.StatusOK || body == "" {
			t.Errorf("GET %s is %s with %d bytes", path, r.Status, len(body))
		}
	}
	for _, path := range []string{"/", "/run.json", "/metrics", "/events", "/no/such"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"} {
			r, _ := answer(t, h, method, path)
			if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s is %s and allows %q", method, path, r.Status, r.Header.Get("Allow"))
			}
		}
	}
	for path, contentType := range map[string]string{"/": "text/html", "/events": "text/event-stream", "/run.json": "application/json", "/metrics": "text/plain"} {
		r, _ := answer(t, h, "HEAD", path)
		if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), contentType) {
			t.Errorf("HEAD %s is %s, of type %q", path, r.Status, r.Header.Get("Content-Type"))
		}
	}
	for _, path := range []string{"/no/such", "/index.html", "/handler.go", "/page.js/", "//", "/../run.json"} {
		if r, _ := answer(t, h, "GET", path); r.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s is %s, want 404", path, r.Status)
		}
	}
}

func TestEveryAnswerIsHardened(t *testing.T) {
	h := newHandler(newFake(aRun(1, 4, began)))
	for _, target := range []string{"GET /", "GET /page.js", "GET /run.json", "GET /metrics", "HEAD /events", "POST /", "GET /no/such"} {
		method, path, _ := strings.Cut(target, " ")
		r, _ := answer(t, h, method, path)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'self'; ", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := r.Header.Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s is %q, want %q", target, name, got, want)
			}
		}
		policy := r.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", target, policy)
		}
		if got := r.Header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: other origins are allowed: %q", target, got)
		}
	}
}

// The page has no script and no style in it, and neither it nor its script makes HTML out of texts or names another server.
func TestPageNeedsNothingElse(t *testing.T) {
	for _, name := range []string{"index.html", "page.js", "page.css"} {
		content, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, pattern := range []string{`(?i)innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(`, `(?i)\son\w+=`, `\sstyle=`, `https?://`, `(?:src|href)="/`, `@import|url\(`, `<script>`, `<style`} {
			if found := regexp.MustCompile(pattern).Find(content); found != nil {
				t.Errorf("%s has %q", name, found)
			}
		}
	}
}

func TestHandlerBelowAPrefix(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/my/status/", http.StripPrefix("/my/status", newHandler(newFake(aRun(1, 4, began)))))
	s := httptest.NewServer(mux)
	defer s.Close()
	at := func(path string) string {
		t.Helper()
		r, err := http.Get(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, r.Status, err)
		}
		return string(body)
	}
	page := at(s.URL + "/my/status")
	base, err := url.Parse(s.URL + "/my/status/")
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`(?:src|href)="([^"#]+)"`).FindAllStringSubmatch(page, -1)
	if len(links) < 4 {
		t.Errorf("the page has the links %q", links)
	}
	for _, link := range links {
		to, err := base.Parse(link[1])
		if err != nil {
			t.Fatal(err)
		}
		at(to.String())
	}
}

func TestRunJSONOfOneTask(t *testing.T) {
	r := starting(aRun(2, 8, began.Add(time.Hour)))
	h := newHandler(newFake(r))
	if answered, body := answer(t, h, "GET", "/run.json?task=%"); answered.StatusCode != http.StatusBadRequest || strings.Contains(body, "digits") {
		t.Errorf("a query that cannot be read is answered by %s: %s", answered.Status, body)
	}
	for query, want := range map[string]string{
		"pool=digits-k3f9&task=t00004":          "t00004",
		"pool=other&task=t00004":                "",
		"node=digits-k3f9%2F2&phase=apt":        "apt",
		"node=digits-k3f9%2F1&phase=apt":        "",
		"failure=77777":                         "",
		"pool=digits-k3f9&task=%3Cscript%3E%0A": "",
	} {
		_, body := answer(t, h, "GET", "/run.json?"+query)
		var got struct {
			Seq           int64
			Tasks, Phases []struct {
				ID, Name string
				Lines    []struct{ Text string }
			}
			Nodes, Offers []any
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		parts := append(got.Tasks, got.Phases...)
		if want == "" && len(parts) > 0 || want != "" && (len(parts) != 1 || parts[0].ID != want && parts[0].Name != want || len(parts[0].Lines) == 0) {
			t.Errorf("%s: got %+v, want %q", query, parts, want)
		}
		if len(got.Nodes)+len(got.Offers) > 0 || got.Seq != r.Seq {
			t.Errorf("%s: got %s", query, body)
		}
	}
}
