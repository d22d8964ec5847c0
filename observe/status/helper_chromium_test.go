package status

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// A chromium is a browser with one page, driven by its DevTools protocol over pipes.
type chromium struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	session string
	calls   int
	thrown  []string // what scripts have thrown, and what the content security policy has refused
}

// startChromium starts a browser, or skips the test if there is none.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_CHROMIUM") == "1" {
			t.Fatal("there is no chromium, and GPUTRAIN_REQUIRE_CHROMIUM=1 requires it")
		}
		t.Skip("there is no chromium: install it to test the page in a browser")
	}
	toBrowser, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	c := &chromium{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		c.send("", "Browser.close", nil)
		late := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		late.Stop()
		in.Close()
		out.Close()
	})
	out.SetReadDeadline(time.Now().Add(2 * time.Minute))
	c.tab("about:blank")
	return c
}

// tab opens another page, which is driven from then on.
func (c *chromium) tab(url string) {
	c.t.Helper()
	c.session = ""
	var target struct{ TargetID string }
	c.call("Target.createTarget", map[string]any{"url": url}, &target)
	var attached struct{ SessionID string }
	c.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		c.call(domain+".enable", nil, nil)
	}
}

func (c *chromium) send(session, method string, params any) int {
	c.calls++
	text, err := json.Marshal(map[string]any{"id": c.calls, "method": method, "params": params, "sessionId": session})
	if session == "" {
		text, err = json.Marshal(map[string]any{"id": c.calls, "method": method, "params": params})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.in.Write(append(text, 0))
	return c.calls
}

// call calls a method of the protocol and waits for its result.
func (c *chromium) call(method string, params, result any) {
	c.t.Helper()
	id := c.send(c.session, method, params)
	for {
		text, err := c.out.ReadBytes(0)
		if err != nil {
			c.t.Fatalf("%s: %v", method, err)
		}
		var message struct {
			ID     int
			Result json.RawMessage
			Error  json.RawMessage
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(text[:len(text)-1], &message); err != nil {
			c.t.Fatalf("%s: %v", method, err)
		}
		switch {
		case message.Method == "Runtime.exceptionThrown":
			var p struct {
				ExceptionDetails struct {
					Exception struct{ Description string }
				}
			}
			json.Unmarshal(message.Params, &p)
			c.thrown = append(c.thrown, p.ExceptionDetails.Exception.Description)
		case message.Method == "Log.entryAdded":
			var p struct {
				Entry struct{ Source, Level, Text string }
			}
			json.Unmarshal(message.Params, &p)
			if p.Entry.Level == "error" && p.Entry.Source != "network" {
				c.thrown = append(c.thrown, p.Entry.Text)
			}
		}
		if message.ID != id {
			continue
		}
		if message.Error != nil {
			c.t.Fatalf("%s: %s", method, message.Error)
		}
		if result != nil {
			if err := json.Unmarshal(message.Result, result); err != nil {
				c.t.Fatalf("%s: %v", method, err)
			}
		}
		return
	}
}

func (c *chromium) open(url string) {
	c.t.Helper()
	c.call("Page.navigate", map[string]any{"url": url}, nil)
}

// eval returns the value of a JavaScript expression, as text.
func (c *chromium) eval(expression string) string {
	c.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	c.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		c.t.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	return fmt.Sprint(r.Result.Value)
}

// await waits until an expression has a value.
func (c *chromium) await(expression, want string) {
	c.t.Helper()
	got := ""
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got = c.eval(expression); got == want {
			return
		}
	}
	c.t.Fatalf("%s is %q, want %q\nthrown: %q", expression, got, want, c.thrown)
}

func (c *chromium) screen(width, height int, scheme string) {
	c.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	c.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

func (c *chromium) screenshot(path string) {
	c.t.Helper()
	var shot struct{ Data string }
	c.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	image, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, image, 0o600); err != nil {
		c.t.Fatal(err)
	}
}
