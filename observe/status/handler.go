package status

import (
	"bufio"
	"embed"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gputrain/gputrain/observe"
)

//go:embed index.html page.js page.css
var files embed.FS

// pageFiles are the files of the page, by their paths.
var pageFiles = map[string]struct{ name, contentType string }{
	"/":         {"index.html", "text/html; charset=utf-8"},
	"/page.js":  {"page.js", "text/javascript; charset=utf-8"},
	"/page.css": {"page.css", "text/css; charset=utf-8"},
}

// writeTimeout is how long a client may not take what it is sent.
const writeTimeout = 10 * time.Second

// Handler returns a handler that shows what r records: see the package's documentation for its paths. Whoever can send requests
// to it sees everything. It checks no token and no Host, and leaves that to the server that it is mounted in; [Serve] does both.
//
// It can be mounted below a prefix, which the page then does not need to know:
//
//	http.Handle("/status/", http.StripPrefix("/status", status.Handler(rec)))
func Handler(r *observe.Recorder) http.Handler { return newHandler(r) }

// A handler answers requests about one Recorder.
type handler struct {
	feed         *feed
	metrics      *metrics
	streams      chan struct{} // has an element for each stream
	writeTimeout time.Duration
}

func newHandler(s source) *handler {
	return &handler{feed: &feed{source: s}, metrics: newMetrics(), streams: make(chan struct{}, maxStreams), writeTimeout: writeTimeout}
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	harden(w.Header())
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "This page only shows what happens: it answers GET and HEAD.")
		return
	}
	switch path := q.URL.Path; path {
	case "/events":
		h.events(w, q)
	case "/run.json":
		h.run(w, q)
	case "/metrics":
		h.writeMetrics(w, q)
	default:
		file, ok := pageFiles[path]
		if !ok {
			refuse(w, http.StatusNotFound, "There is no such page. The paths are /, /run.json, /events and /metrics.")
			return
		}
		content, err := files.ReadFile(file.name)
		if err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
		w.Header().Set("Content-Type", file.contentType)
		w.Write(content)
	}
}

// run answers with the Run as JSON, or with the part of it that the query asks for.
func (h *handler) run(w http.ResponseWriter, q *http.Request) {
	query, err := url.ParseQuery(q.URL.RawQuery)
	if err != nil {
		refuse(w, http.StatusBadRequest, "The query cannot be read: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if q.Method == http.MethodHead {
		return
	}
	r := h.feed.source.Run()
	out := bufio.NewWriterSize(h.writer(w), 1<<15)
	if err := writeRun(out, r, selection(r, query)); err == nil {
		out.WriteByte('\n')
		out.Flush()
	}
}

// selection returns the part of a Run that a query asks for.
func selection(r observe.Run, query url.Values) part {
	var p part
	switch {
	case query.Has("task"):
		pool, id := query.Get("pool"), query.Get("task")
		p.has = func(s section, i int) bool {
			return s == tasks && line(r.Tasks[i].ID) == id && line(r.Tasks[i].Pool) == pool
		}
	case query.Has("phase"):
		node, name := query.Get("node"), query.Get("phase")
		p.has = func(s section, i int) bool {
			return s == phases && line(r.Phases[i].Name) == name && line(r.Phases[i].Node) == node
		}
	case query.Has("failure"):
		seq := query.Get("failure")
		p.has = func(s section, i int) bool { return s == failures && strconv.FormatInt(r.Failures[i].Seq, 10) == seq }
	}
	return p
}

// harden sets what keeps other sites from using, framing or caching an answer, and an answer from loading anything else.
func harden(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// refuse answers with a text that says what is wrong.
func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	w.Write([]byte(why + "\n"))
}
