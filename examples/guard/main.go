// Guard ends what dead programs have left at clouds whose machines cannot end themselves, again and
// again. It is for any machine that is always on: a small server, or a CI runner.
//
//	guard lambda verda                   look every 10 minutes, until a signal comes
//	guard -every 1h 'lambda={"Region": "us-west-1"}'
//	guard -once lambda                   look once, and exit with status 1 if something is wrong
//	guard -systemd lambda                print a systemd unit that runs this
//	guard -cron lambda                   print a line for crontab that does
//
// It never touches the pool of a running program. On the computer of the pools it goes by their
// ledgers (-state-dir names another folder than the user's own); on another computer by what the
// providers list: it then ends a pool whose TTL is over, or whose lease is by the marks that its
// program has made. The providers take their usual environment variables, and the settings in the
// JSON. aws, gcp and kubernetes, whose machines end themselves, need a build with the tag sdk, which
// takes minutes.
//
// The unit is a user's, which sees the user's ledgers. It goes into
// ~/.config/systemd/user/gputrain-guard.service:
//
//	[Unit]
//	Description=End what dead gputrain programs have left
//
//	[Service]
//	# LAMBDA_API_KEY=... and the like, in a file that only you can read
//	EnvironmentFile=%h/.config/gputrain/guard.env
//	ExecStart="/usr/local/bin/guard" "-every" "10m0s" "lambda"
//	Restart=always
//	RestartSec=1min
//
//	[Install]
//	WantedBy=default.target
//
// and is started by
//
//	systemctl --user enable --now gputrain-guard && loginctl enable-linger
//
// The line for crontab -e is
//
//	*/10 * * * * set -a; . "$HOME/.config/gputrain/guard.env"; exec '/usr/local/bin/guard' '-once' 'lambda'
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gputrain/gputrain"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args ...string) error {
	flags := flag.NewFlagSet("guard", flag.ContinueOnError)
	every := flags.Duration("every", 10*time.Minute, "the time from one look to the next")
	once := flags.Bool("once", false, "look once")
	dir := flags.String("state-dir", "", "the folder of the pools' ledgers; empty means the user's own")
	systemd := flags.Bool("systemd", false, "print a systemd unit, and do nothing")
	cron := flags.Bool("cron", false, "print a line for crontab, and do nothing")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), `usage: guard [flags] PROVIDER...    such as lambda, or 'lambda={"Region": "us-west-1"}'`)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	var from []gputrain.Provider
	for _, arg := range flags.Args() {
		p, err := provider(arg)
		if err != nil {
			return err
		}
		from = append(from, p)
	}
	var service []string // this program's arguments, as a service
	if *dir != "" {
		service = append(service, "-state-dir", *dir)
	}
	service = append(service, flags.Args()...)
	if *systemd || *cron {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		if *systemd {
			fmt.Fprint(out, unit(self, *every, service))
		}
		if *cron {
			fmt.Fprint(out, crontab(self, *every, service))
		}
		return nil
	}
	for ended, err := range gputrain.StateDir(*dir).Guard(ctx, *every, from...) {
		report(out, ended, err)
		if *once || errors.Is(err, gputrain.ErrInvalid) {
			return err
		}
	}
	return nil
}

// report prints what a round has ended, and what is wrong.
func report(out io.Writer, ended []gputrain.Resource, err error) {
	at := time.Now().Format(time.DateTime)
	for _, r := range ended {
		fmt.Fprintf(out, "%s ended %s %s %s of pool %s\n", at, r.Provider, r.Kind, r.ID, r.Pool)
	}
	var leak *gputrain.LeakError
	if errors.As(err, &leak) {
		for _, r := range leak.Resources {
			fmt.Fprintf(out, "%s LEFT %s %s %s in %s, %v an hour\n", at, r.Provider, r.Kind, r.ID, r.Region, r.HourlyUSD)
		}
	}
	if err != nil {
		fmt.Fprintf(out, "%s %s\n", at, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
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
