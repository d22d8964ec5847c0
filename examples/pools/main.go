// Pools shows what pools of gputrain there are, on this computer and in accounts, and works on them: it follows their tasks,
// opens shells on their nodes, and ends what is to end.
//
//	pools                               the pools of this computer, by their ledgers
//	pools list vastai lambda            also what these accounts hold
//	pools nodes POOL                    its machines, as its provider lists them
//	pools watch run.events              a running program's pool, by the file of its observe.Recorder
//	pools logs POOL JOB                 a task's output, from its start and as it comes
//	pools end pool POOL                 what ending it would end; -yes ends it
//	pools gpus vastai lambda            which GPU costs what now
//	pools help                          all commands; pools help COMMAND describes one
//
// A POOL is a pool's name or ID in the ledgers of this computer, or the file of events that its program writes
// (observe.Config.File). The file is only read, so that it suits the pool of a living program. By its name or ID, the commands
// jobs, logs, watch, shell and "end job" take a pool over from a program that is dead, with gputrain.Attach, and leave it with
// Detach. They ask first, since taking over has effects: tasks that wait begin, and those that call Go functions, which this
// program does not have, fail. Of a living program they take nothing, unless -takeover is given, which fences it off.
//
// Nothing is ended, and nothing taken over, without -yes or a yes on the terminal.
//
// A PROVIDER is a provider's name, which takes its usual environment variables (VAST_API_KEY and the like); or a name with
// settings as JSON, 'aws={"Region": "eu-west-1"}'; or an account of the file of -accounts. For a POOL the ledger has the
// provider's name; -provider adds settings.
//
// The exit status is 0 if all was done, 1 if something failed, and 2 if the command line is wrong. With -json stdout has JSON
// only. Errors and notes are on stderr.
//
// The program builds in seconds, as it links no vendor's client. If aws, gcp or kubernetes is named, it builds itself again
// with their clients, for which it needs the Go toolchain and some minutes. The tag sdk builds it with these clients from the start:
//
//	go build -tags sdk ./examples/pools
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/gputrain/gputrain"
	"golang.org/x/term"
)

func main() {
	gputrain.Init()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once, which leaves every pool as it is
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	a.asks = isTerminal(a.in) && isTerminal(a.err)
	os.Exit(a.main(ctx, os.Args[1:]))
}

// An app is this program with its streams.
type app struct {
	in       io.Reader
	out, err io.Writer
	asks     bool // a person can answer questions
}

// main runs a command line, and returns the exit status.
func (a *app) main(ctx context.Context, args []string) int {
	err := a.run(ctx, args)
	if errors.Is(err, errNeedsSDK) {
		err = a.runWithSDKs(ctx, args)
	}
	var ended *exec.ExitError
	var wrong *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended) && ended.ExitCode() > 0:
		return ended.ExitCode() // it has printed the reason
	case errors.As(err, &wrong):
		fmt.Fprintf(a.err, "pools: %s\n", clean(err.Error()))
		return 2
	}
	fmt.Fprintf(a.err, "pools: %s\n", cleanText(err.Error()))
	return 1
}

// A usageError is a mistake in the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func wrongUsage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
