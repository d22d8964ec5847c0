package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	m.Run()
}

// clouds returns a cloud whose machines cannot end themselves, with a living pool and the machine of
// a program on another computer whose TTL is over, and the argument that names it.
func clouds(t *testing.T) (cloud *sim.Cloud, pool *gputrain.Compute, arg string) {
	cloud = sim.New(sim.Options{NoSelfDestruct: true})
	t.Cleanup(func() { cloud.Close() })
	endpoint, err := cloud.Serve()
	if err != nil {
		t.Fatal(err)
	}
	provider := sim.Config{Endpoint: endpoint}
	pool, err = gputrain.Open(t.Context(), provider, gputrain.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	d, err := provider.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for offer, err := range d.Offers(t.Context(), driver.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Launch(t.Context(), driver.Launch{
			Offer: offer, Nodes: []driver.NodeRequest{{Name: "lost-0"}},
			Pool: driver.PoolInfo{ID: "lost", Owner: "elsewhere.12345678/1/2", Lease: time.Minute, Expires: time.Now().Add(-time.Hour)},
		})
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	return cloud, pool, fmt.Sprintf(`sim={"endpoint": %q}`, endpoint)
}

func TestOnce(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	cloud, pool, arg := clouds(t)
	var out strings.Builder
	if err := run(t.Context(), &out, "-once", arg); err != nil {
		t.Error(err)
	}
	if got := out.String(); !regexp.MustCompile(`^\S+ \S+ ended sim machine \S+ of pool lost\n$`).MatchString(got) {
		t.Errorf("it prints\n%s", got)
	}
	if r, err := pool.Run(gputrain.Cmd("echo", "still here")); err != nil || string(r.Stdout) != "still here\n" {
		t.Errorf("the living pool: %s, %v", r.Stdout, err)
	}
	if err := pool.Close(); err != nil || len(cloud.Live()) > 0 {
		t.Errorf("%v; left: %v", err, cloud.Live())
	}
}

// It looks until its context ends, which is no error.
func TestEvery(t *testing.T) {
	cloud, _, arg := clouds(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, new(strings.Builder), "-every", "1ms", "-state-dir", t.TempDir(), arg) }()
	lists := func() (n int) {
		for _, call := range cloud.Log() {
			if call.Op == sim.OpList {
				n++
			}
		}
		return n
	}
	for lists() < 5 && ctx.Err() == nil {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Once, it returns what is wrong: cron sends that by mail.
func TestOnceThatFails(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var out strings.Builder
	err := run(t.Context(), &out, "-once", `sim={"endpoint": "http://127.0.0.1:1"}`, "local")
	if !errors.Is(err, gputrain.ErrUnavailable) || !strings.Contains(out.String(), "sim: open: ") {
		t.Errorf("%v; it prints\n%s", err, out.String())
	}
}

func TestArguments(t *testing.T) {
	for arg, says := range map[string]string{
		"acme": `there is no provider "acme"; there are `, "local=dir": "not JSON", "": "no provider is given", "-every=0 local": "every is 0s", "aws": "providers/all",
	} {
		if err := run(t.Context(), new(strings.Builder), strings.Fields(arg)...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// The comment has what the flags print.
func TestServices(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	comment := strings.ReplaceAll(strings.ReplaceAll(string(source), "\n//\n", "\n\n"), "//\t", "")
	for _, text := range []string{unit("/usr/local/bin/guard", 10*time.Minute, []string{"lambda"}), crontab("/usr/local/bin/guard", 10*time.Minute, []string{"lambda"})} {
		if !strings.Contains(comment, text) {
			t.Errorf("the comment lacks\n%s", text)
		}
	}
	var out strings.Builder
	if err := run(t.Context(), &out, "-systemd", "-cron", "-every", "2h", "-state-dir", "/my state", `sim={"token": "it's $5 \"or\" 6%"}`); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`" "-every" "2h0m0s" "-state-dir" "/my state" "sim={\"token\": \"it's $$5 \\\"or\\\" 6%%\"}"` + "\n",
		`0 */2 * * * set -a; `, `' '-once' '-state-dir' '/my state' 'sim={"token": "it'\''s $5 \"or\" 6\%"}'` + "\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it prints\n%s\nwithout %s", out.String(), want)
		}
	}
}

// A shell takes the arguments of cron's line as they are meant, with the variables of the file.
func TestCronLine(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	home := t.TempDir()
	file := filepath.Join(home, ".config", "gputrain", "guard.env")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("ACME_KEY=k\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	line := crontab("/usr/bin/env", 5*time.Minute, []string{"A=it's $HOME, 5%"})
	line = strings.ReplaceAll(line, `\%`, "%") // as cron does
	line = strings.Replace(line, "'-once'", "'-u' 'NONE'", 1)
	_, command, _ := strings.Cut(line, "* * * * ")
	cmd := exec.Command(sh, "-c", command)
	cmd.Env = []string{"HOME=" + home}
	got, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(got), "A=it's $HOME, 5%\n") || !strings.Contains(string(got), "ACME_KEY=k\n") {
		t.Errorf("%q: %v\n%s", command, err, got)
	}
}
