// Reap lists the pools that this computer knows of, and ends what dead programs have
// left: their machines, networks, keys and folders.
//
//	reap                  list pools, and end nothing
//	reap local container  end what dead programs have left with these providers
//
// It never touches the pool of a program that lives.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/local"
)

// providers are those that can be named, as their usual environment configures them.
var providers = map[string]gputrain.Provider{
	"local":     local.Config{},
	"container": container.Config{},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, names ...string) error {
	if len(names) == 0 {
		return list(out)
	}
	var from []gputrain.Provider
	for _, name := range names {
		p, ok := providers[name]
		if !ok {
			return fmt.Errorf("there is no provider %q: use %s", name, strings.Join(known(), " or "))
		}
		from = append(from, p)
	}
	ended, err := gputrain.Reap(ctx, from...)
	for _, r := range ended {
		fmt.Fprintf(out, "ended %s %s %s of pool %s\n", r.Provider, r.Kind, r.ID, r.Pool)
	}
	fmt.Fprintln(out, len(ended), "resources ended")
	var leak *gputrain.LeakError
	if errors.As(err, &leak) {
		for _, r := range leak.Resources {
			fmt.Fprintf(out, "LEFT %s %s %s in %s, %v an hour\n", r.Provider, r.Kind, r.ID, r.Region, r.HourlyUSD)
		}
	}
	return err
}

// list shows what the ledgers tell.
func list(out io.Writer) error {
	pools, err := gputrain.Pools()
	if err != nil {
		return err
	}
	if len(pools) == 0 {
		fmt.Fprintln(out, "no pools")
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "POOL\tPROVIDER\tSTATE\tNODES\tAGE\tCOST\tOWNER")
	for _, p := range pools {
		cost := fmt.Sprintf("$%.2f", p.CostUSD)
		if p.Unknown > 0 {
			cost += fmt.Sprintf(" and %d unknown", p.Unknown)
		}
		fmt.Fprintf(w, "%s\t%s\t%v\t%d\t%v\t%s\t%s\n", p.ID, p.Provider, p.State, p.Nodes, time.Since(p.Created).Round(time.Second), cost, p.Owner)
		if p.Err != nil {
			fmt.Fprintf(w, "\t%v\n", p.Err)
		}
	}
	return w.Flush()
}

func known() []string {
	var names []string
	for name := range providers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
