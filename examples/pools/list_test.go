package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
)

func TestNothingThere(t *testing.T) {
	p := newPlace(t)
	at := []string{"-state", p.state}
	pools(t).wants(t, 0, "^no pools on this computer\n$", "^$")
	for line, out := range map[string]string{
		"list": "^no pools on this computer\n$", "cost": "^no pools on this computer\n$", "end left": "^no dead program has left a pool on this computer",
	} {
		pools(t, append(strings.Fields(line), at...)...).wants(t, 0, out, "^$")
	}
	pools(t, "list", p.provider(), "-state", p.state).wants(t, 0, "the accounts hold nothing of any pool", "^$")
	pools(t, "list", "-json", "-state", p.state).wants(t, 0, `"pools": \[\]`, "^$")
	pools(t, "cost", "-json", "-state", p.state).wants(t, 0, `^\[\]`, "^$")
	pools(t, "end", "left", "-json", "-state", p.state).wants(t, 0, `"ended": \[\]`, "^$")
	for _, line := range []string{"nodes x", "cost x", "jobs x", "logs x y", "watch x", "shell x 0", "end pool x", "end job x y"} {
		pools(t, append(strings.Fields(line), at...)...).wants(t, 1, "^$", `^pools: there is no pool "x" .*"pools list" shows`)
	}
}

// The pool of a living program is shown by every command that only reads, and left alone by all others.
func TestLivingPool(t *testing.T) {
	p := newPlace(t)
	pool := open(t, p, 2, gputrain.WithName("busy"))
	id := pool.ID()
	pools(t, "-state", p.state).wants(t, 0, `(?m)^POOL +PROVIDER +STATE +NODES +AGE +COST +OWNER\n`+id+` +local +open +2 +\d+s +\$0\.00 +\S+$`, "^$")
	pools(t, "list", "-state", p.state, p.provider()).wants(t, 0, `(?m)^`+id+` +local +machine +\S+ +\S+ +- +\$0\.00/h +\d+s$`, "^$")
	l := decode[struct {
		Pools     []poolView
		Resources []nodeView
	}](t, pools(t, "list", p.provider(), "-json", "-state", p.state))
	if len(l.Pools) != 1 || l.Pools[0].ID != id || l.Pools[0].State != "open" || len(l.Resources) < 2 || l.Resources[0].Pool != id {
		t.Errorf("%+v", l)
	}

	at := []string{"-state", p.state, "-provider", p.provider()}
	pools(t, append(at[:0:0], append([]string{"nodes", "busy"}, at...)...)...).wants(t, 0, `^NAME +ID +STATE +REGION +PRICE +AGE\n`+id+`-0 .*\$0\.00/h.*\n`+id+`-1 `, "^$")
	nodes := decode[[]nodeView](t, pools(t, append([]string{"nodes", id, "-json"}, at...)...))
	if len(nodes) != 2 || nodes[1].Hourly == nil || *nodes[1].Hourly != 0 || nodes[1].Name != id+"-1" {
		t.Errorf("%+v", nodes)
	}
	pools(t, append([]string{"cost", "busy"}, at...)...).wants(t, 0, `^pool `+id+` has cost \$0\.00 and costs \$0\.00/h\nNAME `, "^$")
	c := decode[costView](t, pools(t, append([]string{"cost", "busy", "-json"}, at...)...))
	if c.Pool != id || c.Hourly == nil || len(c.Nodes) != 2 {
		t.Errorf("%+v", c)
	}
	pools(t, "cost", "-state", p.state).wants(t, 0, `(?m)^all +- .*\$0\.00$`, "^$")

	for _, line := range []string{"jobs busy", "logs busy x", "watch busy", "shell busy 0"} {
		pools(t, append(append(strings.Fields(line), "-yes"), at...)...).wants(t, 1, "^$", "in use.*give the file of events.*-takeover")
	}
	pools(t, append([]string{"end", "pool", "busy", "-yes"}, at...)...).wants(t, 1, "^$", "is alive, .*: end that program, or .*-takeover")
	pools(t, "end", "left", "-yes", p.provider(), "-state", p.state).wants(t, 0, "^0 resources ended\n$", "^$")
	if r, err := pool.Run(gputrain.Cmd("echo", "still here")); err != nil || string(r.Stdout) != "still here\n" {
		t.Errorf("%s, %v", r.Stdout, err)
	}
	pools(t, append([]string{"nodes", "busy"}, "-state", p.state, "-provider", "lambda")...).wants(t, 2, "^$", "is of local, and -provider is lambda")
	pools(t, append([]string{"nodes", "busy"}, "-state", p.state, "-provider", "local", "-provider", "local")...).wants(t, 2, "^$", "is of one provider")
	open(t, p, 1, gputrain.WithName("busy"))
	pools(t, append([]string{"nodes", "busy"}, at...)...).wants(t, 2, "^$", `2 pools have the name "busy": give the ID of one: .*`+id)
}

func TestAccounts(t *testing.T) {
	p := newPlace(t)
	pool := open(t, p, 1)
	file := filepath.Join(t.TempDir(), "accounts.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"here": {"provider": "local", "dir": "` + p.nodes + `"}, "broken": {"provider": "local", "colour": 1}, "big": {"provider": "aws"}}`)
	pools(t, "list", "here", "-accounts", file, "-state", p.state).wants(t, 0, `(?m)^`+pool.ID()+` +local +machine`, "^$")
	pools(t, "list", "broken", "-accounts", file, "-state", p.state).wants(t, 1, "^$", `account "broken": .*no setting "colour"`)
	pools(t, "list", "elsewhere", "-accounts", file, "-state", p.state).wants(t, 2, "^$", `no provider "elsewhere"`)
	pools(t, "list", "here", "-accounts", file+"x", "-state", p.state).wants(t, 1, "^$", "-accounts: .*no such file")
	write(`[]`)
	pools(t, "list", "here", "-accounts", file, "-state", p.state).wants(t, 1, "^$", "is no file of accounts")
}
