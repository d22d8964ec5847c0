package sim_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/sim"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	if endpoint := os.Getenv("GPUTRAIN_SIM_ENDPOINT"); endpoint != "" {
		client(endpoint)
		return
	}
	goleak.VerifyTestMain(m)
}

// greet runs the tasks of these tests: "echo", "sleep", "fail", "cat".
func greet(ctx context.Context, cmd sim.Command) int {
	switch cmd.Args[0] {
	case "echo":
		fmt.Fprintln(cmd.Stdout, strings.Join(cmd.Args[1:], " "))
	case "rank":
		fmt.Fprintln(cmd.Stdout, cmd.Rank, cmd.Getenv("GPUTRAIN_NODE_RANK"))
	case "cat":
		io.Copy(cmd.Stdout, cmd.Stdin)
	case "sleep":
		d, _ := time.ParseDuration(cmd.Args[1])
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return -15
		}
	case "fail":
		fmt.Fprintln(cmd.Stderr, "no luck")
		return 3
	}
	return 0
}

// inBubble runs a test in virtual time, with a cloud whose tasks are greet.
func inBubble(t *testing.T, o sim.Options, f func(t *testing.T, c *sim.Cloud)) {
	bubble.Test(t, func(t *testing.T) {
		o := o
		if o.Exec == nil {
			o.Exec = greet
		}
		c := sim.New(o)
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				for _, call := range c.Log() {
					t.Log(call)
				}
			}
		}()
		f(t, c)
	})
}

func open(t *testing.T, c *sim.Cloud) driver.Driver {
	t.Helper()
	return cloudtest.Open(t, sim.Config{Cloud: c})
}

func request(t testing.TB, d driver.Driver, pool string, n int) driver.Launch {
	t.Helper()
	req := driver.Launch{Pool: info(pool), Token: pool}
	for o, err := range d.Offers(t.Context(), driver.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		req.Offer = o
		break
	}
	for rank := range n {
		req.Nodes = append(req.Nodes, driver.NodeRequest{Rank: rank, Name: fmt.Sprintf("%s-%d", pool, rank)})
	}
	return req
}

func info(pool string) driver.PoolInfo {
	return driver.PoolInfo{ID: pool, Owner: "host/1/2", Lease: time.Minute, AuthorizedKey: cloudtest.PoolKey}
}

func count(c *sim.Cloud, kind string) (n int) {
	for _, r := range c.Live() {
		if r.Kind == kind {
			n++
		}
	}
	return n
}

func ids(ins []driver.Instance) (all []string) {
	for _, in := range ins {
		all = append(all, in.ID)
	}
	return all
}

// client is a program that rents from another's cloud until it is killed.
func client(endpoint string) {
	pool, err := gputrain.Open(context.Background(), sim.Config{Endpoint: endpoint}, gputrain.Spec{Nodes: 2, Lease: 12 * time.Second})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	pool.Start(gputrain.Script("echo; exec sleep 1000"))
	fmt.Println("ready")
	time.Sleep(time.Hour)
}
