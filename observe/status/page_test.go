package status

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/observe"
)

// TestScreenshots takes pictures of the page, to look at if GPUTRAIN_SCREENSHOTS names a folder for them.
func TestScreenshots(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it takes ten seconds")
	}
	dir := os.Getenv("GPUTRAIN_SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	c := startChromium(t)
	s := served(t, newFake(starting(aRun(4, 400, time.Now()))))
	c.screen(1280, 1000, "light")
	c.open(s.URL())
	c.await(`document.querySelector("#tasks-count")?.textContent`, "197/400 done")
	c.eval(`document.querySelector("#failures button").click()`)
	c.eval(`[...document.querySelectorAll("#tasks button")][2].click()`)
	time.Sleep(2 * time.Second)
	for name, screen := range map[string]struct {
		width  int
		scheme string
	}{"status-light.png": {1280, "light"}, "status-dark.png": {1280, "dark"}, "status-narrow.png": {360, "light"}} {
		c.screen(screen.width, 1500, screen.scheme)
		time.Sleep(time.Second)
		c.screenshot(filepath.Join(dir, name))
	}
	c.screen(1280, 1500, "light")
	c.eval(`window.scrollTo(0, document.body.scrollHeight)`)
	time.Sleep(time.Second)
	c.screenshot(filepath.Join(dir, "status-end.png"))
	if len(c.thrown) > 0 {
		t.Errorf("thrown: %q", c.thrown)
	}
}

const (
	connection = `document.querySelector("#connection")?.textContent`
	taskRows   = `document.querySelectorAll("#tasks tbody tr:not(.details)").length`
	done       = `document.querySelector("#tasks-count")?.textContent`
)

// openPage shows the page of a source in a browser. At the end nothing may have been thrown or refused by the policy.
func openPage(t *testing.T, f *fakeSource) (*chromium, *Server) {
	t.Helper()
	c := startChromium(t)
	s := served(t, f)
	c.open(s.URL())
	c.await(connection, "Live")
	t.Cleanup(func() {
		if len(c.thrown) > 0 {
			t.Errorf("the page has thrown, or the policy refused: %q", c.thrown)
		}
	})
	return c, s
}

func TestPageShowsARun(t *testing.T) {
	r := starting(aRun(4, 400, time.Now()))
	f := newFake(r)
	c, _ := openPage(t, f)
	c.await(done, "197/400 done")
	for expression, want := range map[string]string{
		`location.search`: "", `location.hash`: "", `document.cookie`: "", `document.title`: "197/400 tasks, 3 failed · gputrain",
		`document.querySelector("#budget").textContent`:                                                                             "of $5.00",
		`document.querySelector("#most").textContent`:                                                                               "at most $4.05 if this program dies now",
		`document.querySelector("#pools").textContent.includes("4 × L4")`:                                                           "true",
		`document.querySelector("#nodes-count").textContent`:                                                                        "4/6 ready",
		`document.querySelectorAll("#nodes tbody tr").length`:                                                                       "6",
		`document.querySelector("#nodes tbody tr:nth-child(5)").textContent.includes("apt")`:                                        "true",
		`document.querySelector("#nodes tbody tr:nth-child(5) td:last-child progress").value`:                                       "31",
		`document.querySelector("#nodes tbody tr:nth-child(5) progress").getAttribute("aria-label")`:                                "Progress of apt",
		`document.querySelector("#nodes tbody tr:nth-child(1) td:last-child").textContent.includes("ETA ")`:                         "true",
		`document.querySelector("#transfers tbody").textContent.includes("data")`:                                                   "true",
		`document.querySelector("#offers tbody").textContent.includes("ZONE_RESOURCE_POOL_EXHAUSTED")`:                              "true",
		`document.querySelector("#tasks .rest").textContent`:                                                                        "and 350 moreShow 50 of them",
		`[...document.querySelectorAll("table")].every((t) => t.caption && t.caption.textContent)`:                                  "true",
		`[...document.querySelectorAll("progress")].every((p) => p.getAttribute("aria-label") && p.getAttribute("aria-valuetext"))`: "true",
		`document.querySelector("#announce").getAttribute("aria-live")`:                                                             "polite",
		`document.documentElement.scrollWidth <= window.innerWidth`:                                                                 "true",
		`performance.getEntriesByType("resource").every((e) => e.name.startsWith(location.origin + "/"))`:                           "true",
	} {
		if got := c.eval(expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
	c.screen(360, 700, "dark")
	c.await(`document.documentElement.scrollWidth <= window.innerWidth`, "true")

	f.change(func(r *observe.Run) {
		r.Counts.Done, r.Counts.Running, r.Bounded = 198, 7, false
		r.Tasks = append([]observe.Task(nil), r.Tasks...)
		r.Tasks[200].State, r.Tasks[200].Ended = "done", time.Now()
		r.Pools = append([]observe.Pool(nil), r.Pools...)
		r.Pools[0].Waiting = "no capacity in europe-west4"
	})
	c.await(done, "198/400 done")
	c.await(`document.querySelector("#most").textContent`, "unbounded if this program dies now")
	c.await(`document.querySelector("#tasks tbody tr button").textContent`, "trial 200")
	c.await(`document.querySelector("#pools").textContent.includes("waits: no capacity in europe-west4")`, "true")
}

func TestPageWithAKeyboard(t *testing.T) {
	c, _ := openPage(t, newFake(starting(aRun(4, 400, time.Now()))))
	c.await(taskRows, "50")
	key := func(key, code string, virtual int, text string) {
		for _, kind := range []string{"keyDown", "keyUp"} {
			c.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": virtual, "text": text}, nil)
		}
	}
	c.eval(`document.querySelector("#tasks tbody tr button").focus()`)
	key("Enter", "Enter", 13, "\r")
	c.await(`document.querySelector("#tasks tr.details pre")?.textContent.startsWith("epoch 3 of trial ")`, "true")
	c.await(`document.querySelector("#tasks tr.details pre").textContent.includes("a warning\n--- attempt 2\nagain")`, "true")
	c.await(`document.activeElement.getAttribute("aria-expanded")`, "true")
	key("Tab", "Tab", 9, "")
	c.await(`document.activeElement.localName`, "pre")
	c.eval(`document.querySelector("#tasks tbody tr button").focus()`)
	key(" ", "Space", 32, " ")
	c.await(`document.querySelectorAll("#tasks tr.details").length`, "0")

	c.eval(`document.querySelector("#tasks .rest button").focus()`)
	key("Enter", "Enter", 13, "\r")
	c.await(taskRows, "100")
	c.eval(`document.querySelector("#tasks-find").focus()`)
	for _, letter := range "TRIAL 102" {
		c.call("Input.insertText", map[string]any{"text": string(letter)}, nil)
	}
	c.await(taskRows, "1")
	c.await(`document.querySelector("#tasks .count").textContent`, "1 of 400")
	c.eval(`document.querySelector("#tasks-find").value = ""; document.querySelector("#tasks-filter").value = "failed"; document.querySelector("#tasks-filter").dispatchEvent(new Event("input"))`)
	c.await(taskRows, "3")
	c.eval(`document.querySelector("#failures tbody tr button").click()`)
	c.await(`document.querySelector("#failures tr.details pre")?.textContent`, "RuntimeError: CUDA error: out of memory\n")
}

func TestPageOfALargeRun(t *testing.T) {
	began := time.Now()
	f := newFake(aRun(500, 10_000, began))
	c, _ := openPage(t, f)
	opened := time.Now()
	c.await(taskRows, "50")
	t.Logf("500 nodes and 10 000 tasks were shown %v after the connection, %v after the start of the browser", time.Since(opened).Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	t.Logf("the page itself says %s ms", c.eval(`Math.round(performance.now())`))
	c.await(`document.querySelectorAll("#nodes tbody tr").length`, "100")
	c.await(`document.querySelector("#nodes .rest span").textContent`, "and 400 more")
	c.await(`document.querySelector("#tasks .rest span").textContent`, "and 9\u202f950 more")
	c.eval(`window.longest = 0; new PerformanceObserver((l) => { for (const e of l.getEntries()) window.longest = Math.max(window.longest, e.duration); }).observe({ type: "longtask" })`)
	for i := range 10 {
		f.change(func(r *observe.Run) {
			r.Counts.Done = i
			r.Nodes = append([]observe.Node(nil), r.Nodes...)
			for j := range r.Nodes {
				r.Nodes[j].Ended = i
				r.Nodes[j].UsageAt = time.Now()
			}
		})
		time.Sleep(100 * time.Millisecond)
	}
	c.await(done+`.startsWith("9/")`, "true")
	t.Logf("the longest task of the page took %s ms", c.eval(`Math.round(window.longest)`))
}

func TestPageWithHostileTexts(t *testing.T) {
	c, _ := openPage(t, newFake(hostileRun(time.Now())))
	c.await(taskRows, "4")
	c.eval(`document.querySelectorAll("td button").forEach((b) => b.click())`)
	c.await(`document.querySelector("#tasks pre")?.textContent.includes("onerror=alert(1)>")`, "true")
	if got := c.eval(`document.querySelectorAll("img, main script, iframe").length`); got != "0" {
		t.Errorf("the page has %s elements of the texts", got)
	}
	if got := c.eval(`/[\u0000-\u0008\u001b\u202e]/.test(document.body.textContent)`); got != "false" {
		t.Error("the page has characters that control or reorder")
	}
}

// The page says that the connection is lost, and shows what has changed once the program answers again.
func TestPageConnectsAgain(t *testing.T) {
	f := newFake(aRun(2, 40, time.Now()))
	c := startChromium(t)
	start := func(addr, token string) *Server {
		s, err := serve(newHandler(f), addr, token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := start("", "one")
	c.open(s.URL())
	c.await(connection, "Live")
	c.eval(`{ const later = setTimeout; window.setTimeout = (f, ms) => later(f, ms / 50) }`) // the page tries again after seconds
	s.http.Close()                                                                           // as the end of a killed program does
	c.await(connection+`.startsWith("The connection is lost")`, "true")
	c.await(`document.querySelector("#connection").className`, "lost")
	s.Close()

	other := start(s.listen.String(), "other")
	c.await(connection+`.startsWith("The program was started again")`, "true")
	other.Close()
	f.change(func(r *observe.Run) { r.Counts.Done = 33 })
	start(s.listen.String(), "one")
	c.await(connection, "Live")
	c.await(done+`.startsWith("33/")`, "true")
}

// A run whose program ends shows its last state, in which all machines are gone, and its times stand still. The page goes on with
// another program at the same address.
func TestPageShowsTheEnd(t *testing.T) {
	f := newFake(aRun(2, 40, time.Now()))
	c := startChromium(t)
	start := func(addr, token string) *Server {
		s, err := serve(newHandler(f), addr, token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := start("", "one")
	c.open(s.URL())
	c.await(connection, "Live")
	c.eval(`{ const later = setTimeout; window.setTimeout = (f, ms) => later(f, ms / 50) }`)
	f.change(func(r *observe.Run) { // between two updates
		r.Pools, r.Nodes = slices.Clone(r.Pools), slices.Clone(r.Nodes)
		for i := range r.Pools {
			r.Pools[i].State, r.Pools[i].Closed, r.Pools[i].Err = "closed", time.Now(), ""
		}
		for i := range r.Nodes {
			r.Nodes[i].State, r.Nodes[i].Gone = "terminated", time.Now()
		}
	})
	s.Close()
	c.await(connection, "The run has ended: all machines are gone.")
	c.await(`document.querySelector("#connection").className`, "")
	c.await(`document.querySelector("#nodes tbody").textContent.includes("ready")`, "false")
	if first := c.eval(`now()`); first != c.eval(`now()`) {
		t.Error("its times go on")
	}
	other := start(s.listen.String(), "other")
	c.await(connection+`.includes("Another program is at this address")`, "true")
	other.Close()
	start(s.listen.String(), "one")
	c.await(connection, "Live")
}

// The token gets to no other port of this host, and neither into the address bar nor into the browser's history; the page has it
// after a reload, and lacks it in another tab.
func TestPageKeepsTheTokenToItself(t *testing.T) {
	var mu sync.Mutex
	var sent []string // to another port
	var status *Server
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		text, _ := httputil.DumpRequest(q, true)
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, string(text))
		w.Header().Set("Content-Type", "text/html")
		base, _ := addressOf(t, status)
		fmt.Fprintf(w, `<script>
			const read = async (options) => { try { return (await fetch("%[1]s/run.json", options)).status; } catch { return "refused"; } };
			(async () => {
				const got = [await read({ credentials: "include" }), await read({ credentials: "include", mode: "no-cors" })];
				document.title = JSON.stringify([got, document.cookie, { ...sessionStorage }, { ...localStorage }, document.referrer]);
			})();
		</script>`, base)
	}))
	defer other.Close()
	c, s := openPage(t, newFake(aRun(1, 4, time.Now())))
	status = s
	base, token := addressOf(t, s)
	c.await(done, "2/4 done")

	c.call("Page.reload", nil, nil)
	c.await(connection, "Live")
	c.await(done, "2/4 done")
	if got := c.eval(`location.href`); got != base+"/" {
		t.Errorf("the address is %s", got)
	}
	var history struct{ Entries []struct{ URL string } }
	c.call("Page.getNavigationHistory", nil, &history)
	for _, e := range history.Entries {
		if strings.Contains(e.URL, token) {
			t.Errorf("the history has %s", e.URL)
		}
	}

	c.eval(`window.location = ` + strconv.Quote(other.URL+"/"))
	c.await(`document.title.startsWith("[")`, "true")
	if got := c.eval(`document.title`); got != `[["refused","refused"],"",{},{},""]` {
		t.Errorf("a page at another port sees %s", got)
	}
	c.thrown = nil // that page's
	mu.Lock()
	for _, text := range sent {
		if strings.Contains(text, token) || strings.Contains(text, "Cookie:") {
			t.Errorf("another port was sent %s", text)
		}
	}
	mu.Unlock()

	// Another tab is let in by the whole address alone.
	c.tab("about:blank")
	c.open(base + "/")
	c.await(connection+`.startsWith("This page is for those who have its whole address")`, "true")
	c.open(s.URL()) // the same document: only the fragment changes
	c.await(connection, "Live")
	if got := c.eval(`location.href`); got != base+"/" {
		t.Errorf("the address is %s", got)
	}
}

// The links to data work though they cannot send the token.
func TestPageSavesData(t *testing.T) {
	c, _ := openPage(t, newFake(aRun(1, 4, time.Now())))
	dir := t.TempDir()
	c.call("Page.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": dir}, nil)
	for name, want := range map[string]string{"run.json": `"digits-k3f9"`, "metrics": "gputrain_tasks{"} {
		c.eval(`[...document.querySelectorAll("footer a")].find((a) => a.textContent === ` + strconv.Quote(name) + `).click()`)
		var text []byte
		for end := time.Now().Add(time.Minute); len(text) == 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if found, _ := filepath.Glob(filepath.Join(dir, name+"*")); len(found) == 1 && !strings.HasSuffix(found[0], ".crdownload") {
				text, _ = os.ReadFile(found[0])
			}
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is saved as %.200q", name, text)
		}
	}
}
