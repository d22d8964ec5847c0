package cloudtest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gputrain/gputrain/providers/driver"
)

// Written is a golden file: what is launched for a Query with a changed Config.
type Written[C driver.Provider] struct {
	File   string
	Query  driver.Query
	Change func(*C)
	// Together means one launch for both nodes of a pool.
	Together bool
}

// Golden compares everything that the driver writes into its cloud for four machines of two
// fixed pools, and List's report of it, with testdata/golden/<File>.txt, byte for byte:
// programs of other versions find machines, keys and networks by these tags. A missing
// file is written, and the test fails.
func (c Cloud[F, C]) Golden(t *testing.T, files ...Written[C]) {
	for _, w := range files {
		t.Run(w.File, func(t *testing.T) {
			r := &recorder{next: &http.Transport{DisableKeepAlives: true}}
			cfg := c.Config(c.Start(t))
			if w.Change != nil {
				w.Change(&cfg)
			}
			c.Client(&cfg, &http.Client{Transport: r})
			golden(t, Open(t, cfg), r, w.File, w.Query, w.Together)
		})
	}
}

func golden(t *testing.T, d driver.Driver, r *recorder, name string, query driver.Query, together bool) {
	t.Helper()
	host := fixedHostKey(t)
	var text strings.Builder
	for _, c := range []struct {
		Pool  driver.PoolInfo
		Nodes []driver.NodeRequest
	}{
		{
			driver.PoolInfo{ID: "p7x2", Name: "my pool", Owner: "my-host.lan/4711/1700000000", Lease: 90500 * time.Millisecond, Expires: expires},
			[]driver.NodeRequest{{Name: "p7x2-0"}, {Name: "p7x2-3-r2", Rank: 3}},
		},
		{
			driver.PoolInfo{ID: "train-b", Owner: strings.Repeat("o", 300)},
			[]driver.NodeRequest{{Name: "train-b-12", Rank: 12}, {Name: "train-b-13", Rank: 13}},
		},
	} {
		for i := range c.Nodes {
			c.Nodes[i].HostKey = host
		}
		launches := [][]driver.NodeRequest{c.Nodes}
		if !together {
			launches = slices.Collect(slices.Chunk(c.Nodes, 1))
		}
		c.Pool.AuthorizedKey = PoolKey + " comment"
		pool := c.Pool.WithRecord(func(made driver.Resource) error {
			c.Pool.Made = append(c.Pool.Made, made)
			return nil
		})
		step := func(what string, do func() error) {
			t.Helper()
			if err := do(); err != nil {
				t.Fatalf("%s of %s: %v", what, pool.ID, err)
			}
			fmt.Fprintf(&text, "## %s: %s\n\n%s\n", pool.ID, what, r.take())
		}
		step("prepare", func() error { return d.Prepare(t.Context(), pool) })
		var ids []string
		for _, nodes := range launches {
			step("launch "+nodes[0].Name, func() error {
				offers := Offers(t, d, query)
				if len(offers) == 0 {
					return errors.New("no offers")
				}
				got, err := d.Launch(t.Context(), driver.Launch{Pool: pool, Offer: offers[0], Query: query, Nodes: nodes})
				for _, in := range got {
					ids = append(ids, in.ID)
				}
				return err
			})
		}
		if marker, ok := d.(driver.LeaseMarker); ok {
			step("mark the lease", func() error { return marker.MarkLease(t.Context(), pool, until, ids[:1]...) })
		}
		step("list", func() error {
			all, err := d.List(t.Context(), pool.ID)
			slices.SortFunc(all, func(a, b driver.Resource) int { return strings.Compare(a.Kind+a.Name, b.Kind+b.Name) })
			for _, a := range all {
				r.add(fmt.Sprintf("%s %s: pool %s, owner %q, lease %v, created %s, expires %s, lease until %s",
					a.Kind, a.Name, a.Pool, a.Owner, a.Lease, stamp(a.Created), stamp(a.Expires), stamp(a.LeaseUntil)))
			}
			return err
		})
		cleanup(t, d, c.Pool, ids)
		r.take()
	}
	compare(t, filepath.Join("testdata", "golden", name+".txt"), text.String())
}

// cleanup ends the machines of a Golden pool, and waits until they are gone.
func cleanup(t *testing.T, d driver.Driver, pool driver.PoolInfo, ids []string) {
	t.Helper()
	if err := d.Terminate(t.Context(), ids...); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		now, err := d.Describe(ctx, ids...)
		if err == nil && !slices.ContainsFunc(now, func(in driver.Instance) bool { return in.State != driver.InstanceTerminated }) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := d.Release(ctx, pool); err != nil {
		t.Error(err)
	}
}

// expires and until are so late that no other number in a golden file is near them by chance.
var (
	expires = time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)
	until   = time.Date(2099, 12, 31, 23, 59, 58, 0, time.UTC)
)

func compare(t *testing.T, path, got string) {
	t.Helper()
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o777); err == nil {
			err = os.WriteFile(path, []byte(got), 0o666)
		}
		t.Fatalf("%s did not exist and was written (%v)", path, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	before, after := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range max(len(before), len(after)) {
		if i >= len(before) || i >= len(after) || before[i] != after[i] {
			t.Fatalf("%s:%d differs from what is written into the cloud now:\n%s\nall of it:\n%s", path, i+1, strings.Join(after[min(i, len(after)):min(i+3, len(after))], "\n"), got)
		}
	}
}

// fixedHostKey returns the same host key every time.
func fixedHostKey(t *testing.T) driver.HostKey {
	t.Helper()
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	public := append([]byte("\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20"), private.Public().(ed25519.PublicKey)...)
	return driver.HostKey{
		Private: driver.Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		Public:  "ssh-ed25519 " + base64.StdEncoding.EncodeToString(public) + " comment",
	}
}

// A recorder is a transport that records each call that mentions gputrain or a pool.
type recorder struct {
	next http.RoundTripper

	mu    sync.Mutex
	notes map[string]bool
}

var ours = regexp.MustCompile(`(?i)gputrain|p7x2|train-b`)

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	query, err := url.QueryUnescape(req.URL.RawQuery)
	if err != nil {
		query = req.URL.RawQuery
	}
	head := req.Method + " " + req.URL.Path
	if query != "" {
		head += "?" + query
	}
	if note := r.plain(head + "\n" + indent(readable(body))); req.Method != http.MethodDelete && ours.MatchString(note) {
		r.add(note)
	}
	return r.next.RoundTrip(req)
}

func (r *recorder) add(note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.notes == nil {
		r.notes = map[string]bool{}
	}
	r.notes[note] = true
}

// take returns the records since the last call, sorted and without duplicates: calls are made
// at the same time, and reads are repeated.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, note := range slices.Sorted(maps.Keys(r.notes)) {
		b.WriteString(strings.TrimRight(note, "\n ") + "\n")
	}
	r.notes = nil
	return b.String()
}

// readable returns a body as lines: a form's values, or JSON with sorted keys.
func readable(body []byte) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&v) == nil {
		var b strings.Builder
		lines(&b, "", v)
		return b.String()
	}
	if form, err := url.ParseQuery(string(body)); err == nil && strings.Contains(string(body), "=") {
		var b strings.Builder
		for _, key := range slices.Sorted(maps.Keys(form)) {
			for _, value := range form[key] {
				lines(&b, key, value)
			}
		}
		return b.String()
	}
	return string(body)
}

// lines writes a JSON value as lines "path: value".
func lines(b *strings.Builder, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			lines(b, strings.TrimPrefix(path+"."+key, "."), v[key])
		}
	case []any:
		for i, one := range v {
			lines(b, path+"["+strconv.Itoa(i)+"]", one)
		}
	case string:
		fmt.Fprintf(b, "%s: %s\n", path, short(secrets.ReplaceAllString(decoded(v), "<private key>")))
	default:
		fmt.Fprintf(b, "%s: %v\n", path, v)
	}
}

var encoded = regexp.MustCompile(`[A-Za-z0-9+/]{72,}={0,2}`)

// decoded returns a text with its base64-encoded texts decoded.
func decoded(s string) string {
	return encoded.ReplaceAllStringFunc(s, func(part string) string {
		text, err := base64.StdEncoding.DecodeString(part)
		if err != nil || !utf8.Valid(text) || bytes.ContainsRune(text, 0) {
			return part
		}
		return "base64(" + decoded(string(text)) + ")"
	})
}

// short returns a text. Of a long script it returns only the first line and those that name a
// pool or a key, as scripts may change.
func short(s string) string {
	if len(s) <= 600 {
		return s
	}
	var kept []string
	for i, line := range strings.Split(s, "\n") {
		if i == 0 || marked.MatchString(line) {
			line, _, _ = strings.Cut(line, " base64(")
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n") + "\n..."
}

func indent(s string) string { return strings.ReplaceAll("    "+strings.TrimSpace(s), "\n", "\n    ") }

var (
	secrets   = regexp.MustCompile(`-----BEGIN PRIVATE KEY-----[\s\S]*?-----END PRIVATE KEY-----`)
	marked    = regexp.MustCompile(`p7x2|train-b|ssh-ed25519`)
	numbers   = regexp.MustCompile(`\b[0-9]{9,12}\b`)
	longNames = regexp.MustCompile(`(-r?[0-9]+-c)([1-9a-z][0-9a-z]{5,6})(?:-x([1-9a-z][0-9a-z]{5,6}))?\b`) // of machines of clouds without tags
	moments   = regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z`)
	addresses = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)
	projects  = regexp.MustCompile(`test-project-[0-9]+`) // of the fake Compute Engine
	uuids     = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
)

// plain returns a text without the parts that differ between runs.
func (r *recorder) plain(s string) string {
	isNear := func(a, b time.Time) bool { return a.Sub(b).Abs() < time.Hour }
	s = numbers.ReplaceAllStringFunc(s, func(text string) string {
		n, err := strconv.ParseInt(text, 10, 64)
		switch now := time.Now(); {
		case err != nil:
		case isNear(time.Unix(n, 0), now):
			return "<now>"
		case isNear(now.Add(time.Duration(n)*time.Second), expires):
			return "<until it expires>"
		}
		return text
	})
	s = longNames.ReplaceAllStringFunc(s, func(text string) string {
		parts := longNames.FindStringSubmatch(text)
		created, err := strconv.ParseInt(parts[2], 36, 64)
		if err != nil || !isNear(time.Unix(created, 0), time.Now()) {
			return text
		}
		life, err := strconv.ParseInt(parts[3], 36, 64)
		switch {
		case parts[3] == "":
			return parts[1] + "<now>"
		case err == nil && time.Unix(created+life, 0).Equal(expires):
			return parts[1] + "<now>-x<until it expires>"
		}
		return text
	})
	s = moments.ReplaceAllStringFunc(s, func(text string) string {
		if at, err := time.Parse(time.RFC3339, text); err == nil && isNear(at, time.Now()) {
			return "<now>"
		}
		return text
	})
	s = projects.ReplaceAllString(s, "test-project")
	s = addresses.ReplaceAllString(s, "<address>")
	return uuids.ReplaceAllString(s, "<uuid>")
}

// stamp returns a time in the form of a golden file.
func stamp(at time.Time) string {
	switch {
	case at.IsZero():
		return "never"
	case time.Since(at).Abs() < time.Hour:
		return "<now>"
	}
	return at.UTC().Format(time.RFC3339)
}
