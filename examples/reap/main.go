// Reap lists the pools that this computer knows of, and ends what dead programs have
// left: their machines, networks, keys and folders.
//
//	reap                  list pools, and end nothing
//	reap local vastai     end what dead programs have left with these providers
//	reap 'aws={"Region": "eu-west-1"}'
//
// It never touches the pool of a running program. The providers take their
// usual environment variables, VAST_API_KEY and the like, and the settings in
// the JSON.
//
// It builds in seconds, as it links no vendor's client. If an argument names
// aws or gcp, the program builds itself again with their clients, for which it
// needs the Go toolchain and some minutes. The tag sdk builds the program with
// these clients from the start:
//
//	go build -tags sdk ./examples/reap
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/gputrain/gputrain"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, os.Stdout, os.Args[1:]...)
	var ended *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &ended) && ended.ExitCode() > 0:
		os.Exit(ended.ExitCode()) // it has printed the reason
	default:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args ...string) error {
	if len(args) == 0 {
		return list(out)
	}
	if slices.ContainsFunc(args, needsSDK) {
		return runWithSDKs(ctx, out, args)
	}
	var from []gputrain.Provider
	for _, arg := range args {
		p, err := provider(arg)
		if err != nil {
			return err
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

// provider reads an argument: a name, and after a = settings as JSON.
func provider(arg string) (gputrain.Provider, error) {
	name, text, configured := strings.Cut(arg, "=")
	var settings map[string]any
	if configured {
		if err := json.Unmarshal([]byte(text), &settings); err != nil {
			return nil, fmt.Errorf("the settings of %s are not JSON: %w", name, err)
		}
	}
	return newProvider(name, settings)
}

// list prints the pools in the ledgers.
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
